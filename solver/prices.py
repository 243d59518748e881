"""What restrictions would cost: the winning layout planned again under each, not guessed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout, listed
from solver.partition.alike_menu import MOST_COMBINATIONS, combinations
from solver.partition.policy_menu import best_frontiers
from solver.partition.policy_regimes import (
    MOST_REGIMES,
    each_block,
    each_group,
    model_choices,
    policy_regimes,
)
from solver.partition.regime import Regime
from solver.plan import Price
from solver.request import ChoicePer, Overlap, Recompute
from solver.search.regimes import free_regimes
from solver.search.search import search


@dataclass(frozen=True)
class _Restricted:
    name: str
    regimes: Sequence[Regime]


def prices(
    costs: PipelineCosts,
    layout: Layout,
    iteration_seconds: float,
    overlap: Overlap = Overlap.OFF,
    *,
    offloads: bool = False,
    time_limit_seconds: float = 30.0,
) -> list[Price]:
    """The best plan of a layout under each restriction, beside the free one's time.

    Each search ends with the layout's first turn, so that the same prices come of it on any
    machine; a restriction under which nothing is found in time has none.

    Args:
        costs: The layout's costs.
        layout: The winning layout; one stage per device.
        iteration_seconds: Its best plan without restriction.
        overlap: Where that plan may hide what it recomputes. Restrictions of that come first; the
            others hide nothing.
        offloads: Whether that plan has activations in host memory. To have none there is then the
            first restriction, and holds for all others too, as for the costs.
        time_limit_seconds: Of all together, should the turns take longer.
    """
    found, deadline = [], time.monotonic() + time_limit_seconds
    for restricted in _restrictions(costs, layout, overlap, offloads=offloads):
        outcome = search(
            listed((layout,), (costs.micro_batches,)),
            lambda _: costs,
            lambda _layout, _costs, restricted=restricted: restricted.regimes,  # type: ignore[misc]
            relative_gap=1e-4,
            time_limit_seconds=deadline - time.monotonic(),
            floor_seconds=iteration_seconds,
            thorough=False,
        )
        if outcome.found is None and outcome.unfinished:
            continue
        seconds = None if outcome.found is None else outcome.found.partition.makespan
        slower = None
        if seconds is not None and iteration_seconds:
            slower = max(seconds / iteration_seconds - 1.0, 0.0)
        found.append(
            Price(
                restriction=restricted.name,
                iteration_seconds=seconds,
                slower=slower,
                num_layers=_number(outcome.found.regime if outcome.found else None),
            )
        )
    return found


def _number(regime: Regime | None) -> int | None:
    number = dict(regime.setting).get("num_layers") if regime is not None else None
    return number if isinstance(number, int) else None


_ONLY = {
    Overlap.COMMUNICATION: "recompute under communication only, none in stalls",
    Overlap.STALLS: "recompute in stalls only, none under communication",
}


def _hiding(costs: PipelineCosts, layout: Layout, overlap: Overlap) -> Sequence[Regime]:
    return free_regimes(Recompute(overlap=overlap))(layout, costs)


def _restrictions(
    costs: PipelineCosts, layout: Layout, overlap: Overlap, *, offloads: bool
) -> list[_Restricted]:
    """From the mildest to the hardest."""
    layers = sum(costs.blocks[kind].checkpointable for kind in costs.sequence)
    most = 2 * -(-layers // layout.pipeline_parallel)
    found = []
    if offloads:
        found.append(_Restricted("nothing in host memory", _hiding(costs, layout, overlap)))
    if overlap is Overlap.ALL:
        kinds = (Overlap.COMMUNICATION, Overlap.STALLS)
        found += [_Restricted(_ONLY[one], _hiding(costs, layout, one)) for one in kinds]
    if overlap is not Overlap.OFF:
        found.append(_Restricted("recompute on demand", policy_regimes(costs, Recompute())))
    # Stages that share a device, or make gradients of weights apart, have no menu of alike choices.
    alone = layout.virtual_stages == 1 and layout.schedule not in ("zb-h1", "zb-v", "chimera")
    if alone and combinations(best_frontiers(costs)) <= MOST_COMBINATIONS:
        per_stage = policy_regimes(costs, Recompute(choice_per=ChoicePer.STAGE))
        found.append(_Restricted("one choice per kind and stage", per_stage))
    if model_choices(costs) <= MOST_REGIMES:
        in_model = policy_regimes(costs, Recompute(choice_per=ChoicePer.MODEL))
        found.append(_Restricted("one choice per kind in the model", in_model))
    return [
        *found,
        _Restricted(
            f"first k layers of a stage in full, k to {most}",
            each_block(costs, layout.pipeline_parallel, range(most + 1)),
        ),
        _Restricted(
            f"all layers in full, groups of k, k to {most}",
            each_group(costs, range(1, most + 1)),
        ),
    ]
