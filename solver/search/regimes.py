"""The ways in which the plans of a question may be made: freely, or as its framework allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.costs.offloading import offloading
from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.policy_menu import best_frontier, policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.partition.regime import Admits, Regime
from solver.question import Question
from solver.request import ChoicePer, Offload, Overlap, Policy, Recompute
from solver.schedules import make_schedule
from solver.search.state import Regimes


def regimes_of(asked: Question) -> Regimes:
    """The regimes of a question: its target's where it has one, else those of its policy."""
    target = asked.target
    if target is None:
        return free_regimes(asked.request.recompute)
    stalls = asked.request.recompute.overlap is Overlap.STALLS
    return lambda layout, costs: [
        regime for regime in target.regimes(costs, layout) if stalls or not regime.ahead
    ]


def free_regimes(recompute: Recompute) -> Regimes:
    """The ways in which a plan may be made where no framework says otherwise."""
    on_device = _on_device(recompute)
    if recompute.offload is Offload.OFF:
        return on_device

    def both(layout: Layout, costs: PipelineCosts) -> list[Regime]:
        found = list(on_device(layout, costs))
        for windows in (True, False):
            moved = offload_costs(layout, costs, windows=windows)
            if moved is not None:
                admits = layers_admitted(moved)
                found += [
                    replace(way, costs=moved, admits=admits)
                    for way in on_device(layout, moved)
                    if way.windows == windows
                ]
        return found

    return both


def layers_admitted(costs: PipelineCosts) -> Admits | None:
    """Which counts of blocks a stage of a run that offloads may hold; None: any."""
    if not costs.offload_layers:
        return None
    layers = np.array([block.checkpointable for block in costs.blocks])
    return lambda counts: counts[:, : len(layers)] @ layers <= costs.offload_layers


def offload_costs(
    layout: Layout, costs: PipelineCosts, *, windows: bool = False
) -> PipelineCosts | None:
    """The costs of a layout whose run offloads activations; None where it cannot.

    ``windows``: recompute may stand in windows of the following block.
    """
    schedule = make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    return offloading(costs, schedule, windows=windows)


def _on_device(recompute: Recompute) -> Regimes:
    """The same with every activation on its device."""
    if recompute.choice_per is ChoicePer.MODEL:
        return lambda _, costs: policy_regimes(costs, recompute)
    ahead = uses_stalls(recompute)
    plain = recompute.policy is Policy.OPTIMAL and recompute.overlap in (None, Overlap.OFF)
    asked = Regime(
        lambda costs: policy_menu(costs, recompute),
        ahead=ahead,
        windows=uses_windows(recompute),
        choices=best_frontier if plain and recompute.choice_per is ChoicePer.BLOCK else None,
    )
    if not asked.windows:
        return lambda _layout, _costs: [asked]
    # Large stages fill windows nearly as well as can be; no plan may be slower than one without.
    bare = recompute.model_copy(update={"overlap": Overlap.STALLS if ahead else Overlap.OFF})
    without = Regime(lambda costs: policy_menu(costs, bare), ahead=ahead)
    return lambda _layout, _costs: [asked, without]


def uses_windows(recompute: Recompute) -> bool:
    """Whether recompute may stand in windows of backward."""
    free = recompute.policy is Policy.OPTIMAL
    return free and recompute.overlap in (Overlap.COMMUNICATION, Overlap.ALL)


def uses_stalls(recompute: Recompute) -> bool:
    """Whether stages may recompute ahead of the gradient."""
    free = recompute.policy is Policy.OPTIMAL
    return free and recompute.overlap in (Overlap.STALLS, Overlap.ALL)
