"""The running plan of a request, and plans of other sizes under what it leaves fixed."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from solver.answer import layout_answer
from solver.assess import Assessment, assess
from solver.brought_back import brought_back
from solver.capacity.sizes import check_costs_of_any_size
from solver.contingencies.documents import ContingencyRequest
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest, part_of_request
from solver.layouts import Layout
from solver.partition.regime import Split
from solver.partition.stages import Stage, decided_stages
from solver.question import Question, only_layout, question
from solver.request import LayoutRequest, PlanRequest
from solver.schedules import Schedule
from solver.search.outcome import Found
from solver.search.regimes import regimes_of
from solver.search.search import Regimes, search


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan of a decided layout: its stages, time and memory, and the bound that is proved."""

    asked: Question
    layout: Layout
    costs: PipelineCosts
    schedule: Schedule
    stages: tuple[Stage, ...]
    assessment: Assessment
    lower_bound: float

    @property
    def seconds(self) -> float:
        """Of an iteration."""
        return self.assessment.makespan

    @property
    def split(self) -> Split:
        """The blocks of every stage."""
        return tuple((stage.start, stage.stop) for stage in self.stages)

    @property
    def blocks(self) -> list[int]:
        """How many blocks each stage has."""
        return [stage.stop - stage.start for stage in self.stages]


def decided(job: PlanRequest) -> PlanRequest:
    """The request with every field of its layout filled as an evaluation fills it.

    Raises:
        BadRequest: The layout is not decided, or its ranks are in an order that is not known here.
    """
    check_costs_of_any_size(job)
    with part_of_request("job"):
        asked = question(job)
        layout = only_layout(asked)
    if layout.pipeline_inside:
        raise BadRequest(
            "Contingencies are worked out for ranks in the order tp-cp-ep-dp-pp.",
            field="job.layout.rank_order",
            hint="Plan with rank_order tp-cp-ep-dp-pp.",
        )
    filled = layout_answer(layout).model_dump()
    whole = asked.request.model_copy(update={"layout": LayoutRequest.model_validate(filled)})
    return whole.model_copy(update={"target": job.target})


def running_plan(request: ContingencyRequest) -> Planned | None:
    """The running plan of a decided request; None where it does not fit.

    Raises:
        BadRequest: The stages are not the model's.
    """
    split = None
    if request.stages is not None:
        asked = question(request.job)
        layout = only_layout(asked)
        split = _split(request.stages, asked.costs(layout), layout)
    return planned(request.job, split, request.relative_gap, request.seconds_per_size)


def planned(
    job: PlanRequest, split: Split | None, relative_gap: float, seconds: float
) -> Planned | None:
    """The best plan of a request with a decided layout, of a given split if there is one."""
    asked = question(job, to_plan=True)
    regimes = regimes_of(asked)
    if split is not None:
        regimes = _only(split, regimes)
    outcome = search(
        asked.families,
        asked.costs,
        regimes,
        relative_gap=relative_gap,
        time_limit_seconds=seconds,
        inputs_kept=asked.request.recompute.keeps_inputs,
        rough=asked.rough,
    )
    if outcome.found is None:
        return None
    return _planned(asked, outcome.found, outcome.lower_bound)


def _only(split: Split, free: Regimes) -> Regimes:
    """The regimes with one split left."""
    return lambda layout, costs: [
        replace(regime, splits=(split,)) for regime in free(layout, costs)
    ]


def _planned(asked: Question, found: Found, lower_bound: float) -> Planned:
    stages = decided_stages(found.partition, found.menu)
    stages = brought_back(found.costs, found.schedule, stages)
    assessment = assess(found.costs, found.schedule, stages)
    lower = min(lower_bound, assessment.makespan)
    return Planned(asked, found.layout, found.costs, found.schedule, stages, assessment, lower)


def _split(blocks: list[int], costs: PipelineCosts, layout: Layout) -> Split:
    count = layout.pipeline_parallel * layout.virtual_stages
    if len(blocks) != count or sum(blocks) != len(costs.sequence):
        raise BadRequest(
            f"{len(blocks)} stages with {sum(blocks)} blocks are not the {count} stages and "
            f"{len(costs.sequence)} blocks of the plan and its model.",
            field="stages",
            hint="Copy the numbers of blocks from the plan's stages, or leave them out.",
        )
    if layout.virtual_stages > 1:
        raise BadRequest(
            "Stages that share devices are planned here, not taken.",
            field="stages",
            hint="Leave it out.",
        )
    edges = [0, *itertools.accumulate(blocks)]
    return tuple(itertools.pairwise(edges))


def shared_micro_batches(total: int, replicas: int) -> list[int]:
    """Micro-batches of every replica, as even as whole numbers can be, the larger ones first."""
    least, more = divmod(total, replicas)
    return [least + 1] * more + [least] * (replicas - more)


def largest_share(total: int, replicas: int) -> int:
    """Micro-batches of the replica that has most."""
    return math.ceil(total / replicas)
