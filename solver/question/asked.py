"""What is asked of a model whatever its form: layouts, and the costs of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from solver.calibrations import Calibration
from solver.costs.calibration import (
    Efficiencies,
)
from solver.costs.collective_times import Collectives
from solver.costs.pipeline import PipelineCosts, Work
from solver.errors import BadRequest
from solver.layouts import Family, Layout
from solver.partition.divided import divided
from solver.partition.even import even_stages
from solver.request import (
    PlanRequest,
)
from solver.schedules import Schedule
from solver.search.rough import RoughTotals
from solver.targets.target import Target
from solver.workload.software import Division, facts_of


@dataclass(frozen=True)
class Calibrated:
    """What the seconds of a question rest on.

    ``used``: the calibration as answers name it. ``software``: the generation that runs a layout.
    ``costs``: of a layout under other efficiencies.
    """

    used: Calibration
    device: str
    software: Callable[[Layout], str]
    costs: Callable[[Layout, Efficiencies], PipelineCosts]


@dataclass(frozen=True)
class Question:
    """Candidate layouts in a fixed order, and what each costs.

    ``families`` are the layouts of a plan, ``layouts`` those that an evaluation might mean; only
    what was asked for is there. ``request`` is the request with everything filled that its model
    says of the run. ``work``
    gives what utilisation is measured against, or None for a profile. ``contents``: blocks on each
    stage where the model comes with its own split. ``target``: the framework that is to run it.
    ``calibrated``: None for a profile, which states its own seconds. ``rough``: what the families
    of a plan come to at least; None where their costs are at hand. ``pools``: the device of each,
    where there are several. ``collectives``: those of a layout, None for a profile.
    """

    request: PlanRequest

    layouts: tuple[Layout, ...]
    costs: Callable[[Layout], PipelineCosts]
    work: Callable[[Layout], Work | None]
    contents: tuple[int, ...] | None = None
    target: Target | None = None
    notes: list[str] = field(default_factory=list)
    families: tuple[Family, ...] = ()
    calibrated: Calibrated | None = None
    rough: RoughTotals | None = None
    pools: tuple[str, ...] = ()
    collectives: Callable[[Layout], Collectives] | None = None

    @property
    def some_layout(self) -> Layout:
        """Any of the layouts."""
        return self.families[0].member(0) if self.families else self.layouts[0]


def only_layout(asked: Question) -> Layout:
    """The one layout of an evaluation.

    Raises:
        BadRequest: The request leaves a choice.
    """
    if len(asked.layouts) == 1:
        return asked.layouts[0]
    for name in ("tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch_size"):
        values = sorted({getattr(layout, name) for layout in asked.layouts})
        if len(values) > 1:
            raise BadRequest(
                "An evaluation needs the whole layout.",
                field=f"layout.{name}",
                hint=f"Give it; legal here: {', '.join(map(str, values[:12]))}.",
            )
    raise BadRequest("An evaluation needs the whole layout.", field="layout")


def given_cuts(
    asked: Question, costs: PipelineCosts, schedule: Schedule
) -> tuple[tuple[int, int], ...]:
    """The model's own split where it has one for so many stages, else its software's."""
    if asked.contents is not None and len(asked.contents) == schedule.depth:
        edges = [0, *itertools.accumulate(asked.contents)]
        return tuple(itertools.pairwise(edges)) * (schedule.stages // schedule.depth)
    division = facts_of(asked.request.training.software).division
    if division is Division.EVEN:
        return even_stages(costs, schedule)
    return divided(costs, schedule.depth, division) * (schedule.stages // schedule.depth)
