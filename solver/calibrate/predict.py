"""Predicted seconds of a measured run under given efficiencies, quickly.

The same costs, split, policies and simulator as an evaluation; only long pipelines are shortened:
once the pipeline is full each further round of micro-batches adds the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from solver.costs.calibration import Efficiencies, family_name
from solver.costs.pipeline import Block, PipelineCosts
from solver.errors import BadRequest
from solver.layouts.layout import Layout
from solver.partition.policy_menu import policy_menu
from solver.partition.stages import AMPLE_BYTES, stages_at
from solver.question import Calibrated, Question, given_cuts, only_layout, question
from solver.recompute.policies import full, selective
from solver.request import PlanRequest, Policy, Recompute
from solver.schedules import (
    Schedule,
    ScheduleGraph,
    StageTimes,
    make_schedule,
    schedule_graph,
    simulate,
)

ROUNDS = 2
"""Rounds of micro-batches after which a pipeline repeats itself, within a thousandth."""

_FIXED = (Policy.NONE, Policy.FULL, Policy.SELECTIVE, Policy.UNIFORM, Policy.BLOCK)


_SCHEDULES = ("1f1b", "gpipe")
"""Those whose passes are not split."""


@dataclass(frozen=True)
class Case:
    """A measured run, read once.

    ``group``: runs that are left out together. ``family``: the data file of its device's
    efficiencies. ``software``: the generation that runs it.
    """

    identity: str
    group: str
    measured: float
    question: Question
    calibrated: Calibrated
    layout: Layout
    family: str
    software: str

    @property
    def request(self) -> PlanRequest:
        """What was run."""
        return self.question.request


def case(identity: str, group: str, request: PlanRequest, measured: float) -> Case:
    """Read a run's request.

    Raises:
        BadRequest: It is not one whose seconds efficiencies could explain.
    """
    asked = question(request.model_copy(update={"calibration": None}))
    if asked.calibrated is None:
        raise BadRequest(
            "A profile states its own seconds; there is nothing to fit.",
            field="model.profile",
            hint="Give the model by its name, its config.json or its Megatron-LM flags.",
        )
    if asked.request.recompute.policy not in _FIXED:
        raise BadRequest(
            "What a run recomputed must be known.",
            field="recompute.policy",
            hint=f"Give one of {', '.join(policy.value for policy in _FIXED)}.",
        )
    layout = only_layout(asked)
    if layout.schedule not in _SCHEDULES:
        raise BadRequest(
            f"Runs under {layout.schedule} are not fitted to.",
            field="layout.schedule",
            hint=f"Give runs under {' or '.join(_SCHEDULES)}.",
        )
    return Case(
        identity,
        group,
        measured,
        asked,
        asked.calibrated,
        layout,
        family_name(asked.calibrated.device),
        asked.calibrated.software(layout),
    )


def predict(case: Case, efficiencies: Efficiencies) -> float:
    """Seconds of one iteration."""
    layout = case.layout
    costs = case.calibrated.costs(layout, efficiencies)
    times = _stage_times(case, costs)
    batches = costs.micro_batches
    short = min(batches, ROUNDS * layout.pipeline_parallel * layout.virtual_stages)
    short -= (short - batches) % layout.pipeline_parallel
    further = short + layout.pipeline_parallel
    if further >= batches or layout.interleaving_group:
        return _makespan(layout, batches, times) + costs.fixed_seconds
    first = _makespan(layout, short, times)
    second = _makespan(layout, further, times)
    rounds = (batches - short) / layout.pipeline_parallel
    return first + (second - first) * rounds + costs.fixed_seconds


def _stage_times(case: Case, costs: PipelineCosts) -> StageTimes:
    cuts = given_cuts(case.question, costs, _schedule(case.layout, costs.micro_batches))
    held = [[costs.blocks[kind] for kind in costs.sequence[a:b]] for a, b in cuts]
    forward = _sums(held, "forward_seconds")
    plain = _sums(held, "backward_seconds")
    return StageTimes.of(
        forward,
        plain + _recompute(case, costs, cuts, held),
        costs.send_seconds,
        np.maximum(_sums(held, "gather_seconds") - costs.gather_overlap * forward, 0.0),
        np.maximum(_sums(held, "gradient_seconds") - costs.gradient_overlap * plain, 0.0),
        _sums(held, "optimizer_seconds"),
    )


def _sums(held: list[list[Block]], seconds: str) -> np.ndarray:
    return np.array([sum(getattr(block, seconds) for block in stage) for stage in held])


def _recompute(
    case: Case,
    costs: PipelineCosts,
    cuts: tuple[tuple[int, int], ...],
    held: list[list[Block]],
) -> np.ndarray:
    """Recompute seconds of each stage."""
    recompute = case.request.recompute
    if recompute.policy in (Policy.UNIFORM, Policy.BLOCK):
        ample = replace(costs, capacity_bytes=AMPLE_BYTES)
        menu = policy_menu(ample, recompute)
        stages = stages_at(ample, menu, _schedule(case.layout, costs.micro_batches), cuts)
        assert stages is not None, "everything fits an ample memory"
        return np.array([sum(part.seconds for part in stage.parts) for stage in stages])
    again = {block.name: _again(block, recompute) for block in costs.blocks}
    return np.array([sum(again[block.name] for block in stage) for stage in held])


def _again(block: Block, recompute: Recompute) -> float:
    if recompute.policy is Policy.FULL:
        return full(block).seconds
    if recompute.policy is Policy.SELECTIVE:
        return selective(block, tuple(recompute.modules or ("core_attn",))).seconds
    return 0.0


def _schedule(layout: Layout, batches: int) -> Schedule:
    return make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )


@lru_cache(maxsize=512)
def _graph(name: str, pipeline: int, batches: int, chunks: int, group: int) -> ScheduleGraph:
    return schedule_graph(make_schedule(name, pipeline, batches, chunks, group))


def _makespan(layout: Layout, batches: int, times: StageTimes) -> float:
    graph = _graph(
        layout.schedule,
        layout.pipeline_parallel,
        batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    return float(simulate(graph, times).makespan[0])
