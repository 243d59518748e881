"""The one door of the solver: ``plan`` finds the best plan, ``evaluate`` judges a given one.

request -> question (layouts, costs) -> menus -> partition -> search -> verified answer
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from solver import plan as answers
from solver.assess import assess
from solver.baselines.methods import METHODS
from solver.begun import Begun
from solver.brought_back import brought_back
from solver.calibrate import report
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.finished import checked, finished_plan, no_plan
from solver.given_stages import stages_under
from solver.layouts import Family, Layout, listed
from solver.partition.policy_menu import policy_menu
from solver.partition.stages import Stage
from solver.progress import Progress
from solver.question import Question, given_cuts, only_layout, question
from solver.request import Offload, Overlap, PlanRequest, Policy, Recompute
from solver.schedules import Schedule, make_schedule, recomputing_ahead
from solver.search.by_method import known_layouts, search_by_method
from solver.search.outcome import Outcome
from solver.search.parts import Part, PartOutcome, gathered, most_alone, parts, winner
from solver.search.regimes import free_regimes, offload_costs, regimes_of, uses_stalls, uses_windows
from solver.search.restricted import restricted_search
from solver.search.search import search
from solver.stalls import ahead_where_it_helps

__all__ = ["Progress", "begin", "calibrate", "check", "evaluate", "gather", "part", "plan"]


def plan(
    request: PlanRequest, *, progress: Callable[[Progress], None] | None = None
) -> answers.Plan:
    """The best plan that a request admits, with its proof.

    Args:
        request: Model, cluster, training run, and what is fixed.
        progress: Told of every layout that is begun.

    Raises:
        BadRequest: The request cannot be read or breaks a rule (and subclasses).
        SolverFailed: The optimiser's answer did not survive the independent check.
    """
    deadline = time.monotonic() + request.solver.time_limit_seconds
    begun = begin(request, progress=progress)
    if isinstance(begun, answers.Plan):
        return begun
    ends = [
        part(request, each, time_limit_seconds=deadline - time.monotonic()) for each in begun.parts
    ]
    return gather(request, begun.state, ends, time_limit_seconds=deadline - time.monotonic())


def begin(
    request: PlanRequest, *, progress: Callable[[Progress], None] | None = None
) -> answers.Plan | Begun:
    """The best plan, or of a large search the parts that are left of it (``solver.search.parts``).

    Raises:
        BadRequest, SolverFailed: As ``plan``.
    """
    started = time.perf_counter()
    deadline = time.monotonic() + request.solver.time_limit_seconds
    asked = _to_plan(request)
    outcome, unrestricted = _found(request, asked, progress, most_alone(asked))
    if outcome.rest:
        return Begun(parts(outcome), PartOutcome.of(outcome, time.perf_counter() - started))
    if outcome.found is None:
        return no_plan(request, outcome, time.perf_counter() - started)
    return finished_plan(request, asked, outcome, outcome.found, unrestricted, started, deadline)


def part(
    request: PlanRequest,
    of_search: BaseModel | dict[str, Any],
    *,
    progress: Callable[[Progress], None] | None = None,
    time_limit_seconds: float | None = None,
) -> PartOutcome:
    """What comes of one of the parts that ``begin`` gave.

    Args:
        request: As ``begin`` had it.
        of_search: The part.
        progress: Told of every layout that is begun.
        time_limit_seconds: What is left of the request's, which is for all of it together; if
            absent all of that.

    Raises:
        BadRequest, SolverFailed: As ``plan``.
    """
    started = time.perf_counter()
    asked, mine = _to_plan(request), Part.model_validate(of_search)
    known = math.inf if mine.known_seconds is None else mine.known_seconds
    families = tuple(members.family for members in mine.members)
    outcome = _searched(
        request,
        asked,
        families,
        ceiling_seconds=known,
        time_limit_seconds=time_limit_seconds,
        progress=progress,
    )
    return PartOutcome.of(outcome, time.perf_counter() - started)


def gather(
    request: PlanRequest,
    state: BaseModel | dict[str, Any],
    of_parts: Sequence[PartOutcome | dict[str, Any]],
    *,
    time_limit_seconds: float | None = None,
) -> answers.Plan:
    """The plan of a search that ``begin`` began, from what came of its parts.

    The winner's layout is solved again whatever time is left, as its plan is needed;
    ``time_limit_seconds``, as of ``part``, is for what is told beside it.

    Raises:
        BadRequest, SolverFailed: As ``plan``.
    """
    left = request.solver.time_limit_seconds if time_limit_seconds is None else time_limit_seconds
    deadline = time.monotonic() + left
    asked, begun = _to_plan(request), PartOutcome.model_validate(state)
    ends = [PartOutcome.model_validate(each) for each in of_parts]
    started = time.perf_counter() - sum(each.seconds for each in (begun, *ends))
    best = winner([begun, *ends])
    again = None
    if best is not None and best.winner is not None:
        again = _searched(request, asked, listed((best.winner,), (best.micro_batches,)))
    outcome = gathered(begun, ends, again)
    if outcome.found is None:
        return no_plan(request, outcome, time.perf_counter() - started)
    return finished_plan(request, asked, outcome, outcome.found, None, started, deadline)


def found_by(request: PlanRequest) -> Outcome:
    """The search that ``plan`` makes, without the answer: what was found, and what is proved.

    Raises:
        BadRequest: As ``plan``.
    """
    return _found(request, _to_plan(request), None)[0]


def _found(
    request: PlanRequest,
    asked: Question,
    progress: Callable[[Progress], None] | None,
    most_solved: int | None = None,
) -> tuple[Outcome, Outcome | None]:
    """How the search ends, and where a framework restricts it, the free one beside it."""
    if asked.target is None:
        whole = asked.families
        return _searched(request, asked, whole, most_solved=most_solved, progress=progress), None
    free_asked = question(request.model_copy(update={"target": None}), to_plan=True)
    both = restricted_search(
        asked.families,
        free_asked.families,
        asked.costs,
        regimes_of(asked),
        free_regimes(asked.request.recompute),
        relative_gap=request.solver.relative_gap,
        time_limit_seconds=request.solver.time_limit_seconds,
        rough=free_asked.rough,
        progress=progress,
    )
    return both.found, both.free


def _searched(
    request: PlanRequest,
    asked: Question,
    families: tuple[Family, ...],
    *,
    ceiling_seconds: float = math.inf,
    most_solved: int | None = None,
    time_limit_seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    recompute = asked.request.recompute
    limit = request.solver.time_limit_seconds if time_limit_seconds is None else time_limit_seconds
    method = METHODS.get(recompute.policy)
    if method is not None:
        return search_by_method(
            families,
            asked.costs,
            method,
            recompute.overlap or Overlap.OFF,
            relative_gap=request.solver.relative_gap,
            time_limit_seconds=limit,
            rough=asked.rough,
            progress=progress,
        )
    return search(
        families,
        asked.costs,
        free_regimes(recompute),
        relative_gap=request.solver.relative_gap,
        time_limit_seconds=limit,
        ceiling_seconds=ceiling_seconds,
        inputs_kept=recompute.keeps_inputs,
        rough=asked.rough,
        most_solved=most_solved,
        progress=progress,
    )


def check(request: PlanRequest) -> None:
    """Refuse a plan for every reason that can be told without solving.

    Raises:
        BadRequest: As ``plan`` would.
    """
    _to_plan(request)


def _to_plan(request: PlanRequest) -> Question:
    asked = question(request, to_plan=True)
    method = METHODS.get(asked.request.recompute.policy)
    if method is not None:
        known_layouts(asked.families, asked.costs, method)
    if asked.target is not None and asked.request.recompute.policy is not Policy.OPTIMAL:
        raise BadRequest(
            f"What {asked.target.title} is told to recompute is the answer of a plan for it.",
            field="recompute.policy",
            hint="Give optimal, or leave out target.",
        )
    return asked


def evaluate(request: PlanRequest) -> answers.Evaluation:
    """Time and memory of a fixed layout with a policy, layers split evenly; nothing is searched.

    With ``policy: optimal`` each stage of the even split keeps what its memory allows; where stages
    share devices, by moves from one good plan to a better, nothing proved.

    Raises:
        BadRequest: The request cannot be read, breaks a rule, or leaves the layout open.
    """
    return evaluated(question(request))


def evaluated(asked: Question) -> answers.Evaluation:
    """The same of a question: its ``contents`` may be another split than the even one.

    Raises:
        BadRequest: As ``evaluate``.
    """
    layout = only_layout(asked)
    costs = asked.costs(layout)
    schedule = make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    cuts = given_cuts(asked, costs, schedule)
    recompute = asked.request.recompute
    stalls = uses_stalls(recompute)
    if stalls and schedule.virtual_stages > 1:  # chunks of a device decide it together
        schedule = recomputing_ahead(schedule)
    stages = stages_under(recompute, costs, schedule, cuts)
    if recompute.offload is Offload.ON:
        costs, stages = _offloading_if_better(recompute, costs, layout, schedule, cuts, stages)
    if stalls and schedule.virtual_stages == 1:
        schedule = recomputing_ahead(schedule)
        stages = ahead_where_it_helps(costs, schedule, policy_menu(costs, recompute), stages)
    assessment = assess(costs, schedule, stages)
    return checked(asked, costs, layout, schedule, stages, assessment)


def _offloading_if_better(
    recompute: Recompute,
    costs: PipelineCosts,
    layout: Layout,
    schedule: Schedule,
    cuts: tuple[tuple[int, int], ...],
    stages: tuple[Stage, ...],
) -> tuple[PipelineCosts, tuple[Stage, ...]]:
    """A split's costs and stages with activations in host memory, where that fits or is faster."""
    moved = offload_costs(layout, costs, windows=uses_windows(recompute))
    if moved is None:
        return costs, stages
    others = stages_under(recompute, moved, schedule, cuts)
    here, there = assess(costs, schedule, stages), assess(moved, schedule, others)
    better = (not there.fits, there.makespan) < (not here.fits, here.makespan)
    return (moved, brought_back(moved, schedule, others)) if better else (costs, stages)


def calibrate(asked: RunsToFit) -> Calibration:
    """The efficiencies of a device, fitted to measured runs, with residuals and a band.

    Raises:
        BadRequest: A run cannot be read, or they are not all of one device.
    """
    return report.calibrate(asked.name, asked.runs)
