"""The one door of the solver: ``plan`` finds the best plan, ``evaluate`` judges a given one.

request -> question (layouts, costs) -> menus -> partition -> search -> verified answer
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from solver import answer
from solver import plan as answers
from solver.assess import Assessment, assess
from solver.baselines.adapipe import adapipe
from solver.baselines.lynx_heu import lynx_heu
from solver.baselines.side_by_side import baselines
from solver.begun import Begun
from solver.calibrate import report
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.explain import explain
from solver.identity import SOLVER_VERSION, plan_id
from solver.layouts import Family, Layout, listed
from solver.partition.outcome import Infeasible
from solver.partition.policy_menu import least_memory_menu, policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.partition.stages import Stage, decided_stages, stages_at, with_ample_memory
from solver.prices import prices
from solver.progress import Progress
from solver.question import Question, given_cuts, only_layout, question
from solver.request import ChoicePer, Overlap, PlanRequest, Policy, Recompute
from solver.schedules import Schedule, make_schedule, recomputing_ahead
from solver.search.lost import lost_by
from solver.search.outcome import Found, Outcome
from solver.search.parts import Part, PartOutcome, gathered, most_alone, parts, winner
from solver.search.regimes import free_regimes, regimes_of, uses_stalls
from solver.search.restricted import restricted_search
from solver.search.search import search
from solver.search.trade_off import trade_off
from solver.stalls import ahead_where_it_helps
from solver.targets.planned import planned_for
from solver.targets.registry import TARGETS
from solver.verify import verify

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
    begun = begin(request, progress=progress)
    if isinstance(begun, answers.Plan):
        return begun
    return gather(request, begun.state, [part(request, each) for each in begun.parts])


def begin(
    request: PlanRequest, *, progress: Callable[[Progress], None] | None = None
) -> answers.Plan | Begun:
    """The best plan, or of a large search the parts that are left of it (``solver.search.parts``).

    Raises:
        BadRequest, SolverFailed: As ``plan``.
    """
    started = time.perf_counter()
    asked = _to_plan(request)
    outcome, unrestricted = _found(request, asked, progress, most_alone(asked))
    if outcome.rest:
        return Begun(parts(outcome), PartOutcome.of(outcome, time.perf_counter() - started))
    if outcome.found is None:
        return _no_plan(request, outcome, time.perf_counter() - started)
    return _plan(request, asked, outcome, outcome.found, unrestricted, started)


def part(
    request: PlanRequest,
    of_search: BaseModel | dict[str, Any],
    *,
    progress: Callable[[Progress], None] | None = None,
) -> PartOutcome:
    """What comes of one of the parts that ``begin`` gave.

    Raises:
        BadRequest, SolverFailed: As ``plan``.
    """
    started = time.perf_counter()
    asked, mine = _to_plan(request), Part.model_validate(of_search)
    known = math.inf if mine.known_seconds is None else mine.known_seconds
    families = tuple(members.family for members in mine.members)
    outcome = _searched(request, asked, families, ceiling_seconds=known, progress=progress)
    return PartOutcome.of(outcome, time.perf_counter() - started)


def gather(
    request: PlanRequest,
    state: BaseModel | dict[str, Any],
    of_parts: Sequence[PartOutcome | dict[str, Any]],
) -> answers.Plan:
    """The plan of a search that ``begin`` began, from what came of its parts.

    Raises:
        BadRequest, SolverFailed: As ``plan``.
    """
    asked, begun = _to_plan(request), PartOutcome.model_validate(state)
    ends = [PartOutcome.model_validate(each) for each in of_parts]
    started = time.perf_counter() - sum(each.seconds for each in (begun, *ends))
    best = winner([begun, *ends])
    again = None
    if best is not None and best.winner is not None:
        again = _searched(request, asked, listed((best.winner,), (best.micro_batches,)))
    outcome = gathered(begun, ends, again)
    if outcome.found is None:
        return _no_plan(request, outcome, time.perf_counter() - started)
    return _plan(request, asked, outcome, outcome.found, None, started)


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
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    return search(
        families,
        asked.costs,
        free_regimes(asked.request.recompute),
        relative_gap=request.solver.relative_gap,
        time_limit_seconds=request.solver.time_limit_seconds,
        ceiling_seconds=ceiling_seconds,
        inputs_kept=asked.request.recompute.policy is not Policy.UNIFORM,
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


_METHODS = {Policy.ADAPIPE: "AdaPipe", Policy.LYNX_HEU: "Lynx-HEU"}
"""Policies that come with cuts of their own."""


def _to_plan(request: PlanRequest) -> Question:
    asked = question(request, to_plan=True)
    method = _METHODS.get(asked.request.recompute.policy)
    if method is not None:
        raise BadRequest(
            f"{method} is a method of its own, not a restriction of a plan.",
            field="recompute.policy",
            hint=f"Leave it out: the plan's baselines show what {method} would get. `evaluate` "
            "takes it.",
        )
    if asked.target is not None and asked.request.recompute.policy is not Policy.OPTIMAL:
        raise BadRequest(
            f"What {asked.target.title} is told to recompute is the answer of a plan for it.",
            field="recompute.policy",
            hint="Give optimal, or leave out target.",
        )
    return asked


def evaluate(request: PlanRequest) -> answers.Evaluation:
    """Time and memory of a fixed layout with a policy, layers split evenly; nothing is searched.

    With ``policy: optimal`` each stage of the even split keeps what its memory allows.

    Raises:
        BadRequest: The request cannot be read, breaks a rule, or leaves the layout open.
    """
    asked = question(request)
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
    stages = _stages_under(recompute, costs, schedule, cuts)
    if uses_stalls(recompute):
        schedule = recomputing_ahead(schedule)
        stages = ahead_where_it_helps(costs, schedule, policy_menu(costs, recompute), stages)
    assessment = assess(costs, schedule, stages)
    return _checked(asked, costs, layout, schedule, stages, assessment)


def calibrate(asked: RunsToFit) -> Calibration:
    """The efficiencies of a device, fitted to measured runs, with residuals and a band.

    Raises:
        BadRequest: A run cannot be read, or they are not all of one device.
    """
    return report.calibrate(asked.name, asked.runs)


def _stages_under(
    recompute: Recompute,
    costs: PipelineCosts,
    schedule: Schedule,
    cuts: tuple[tuple[int, int], ...],
) -> tuple[Stage, ...]:
    """The stages of a split under a policy, whether or not they fit."""
    if recompute.policy is Policy.ADAPIPE:
        return _adapipe_stages(costs, schedule)
    if recompute.policy is Policy.LYNX_HEU:
        return _lynx_stages(costs, schedule, recompute.overlap or Overlap.OFF)
    if recompute.policy is Policy.OPTIMAL:
        if schedule.virtual_stages > 1:
            raise BadRequest(
                "The even split over stages that share devices is evaluated with a fixed policy.",
                field="recompute.policy",
                hint="Use none, full, selective, uniform or block.",
            )
        regimes = policy_regimes(costs, recompute)
        made = [stages_at(costs, regime.menu(costs), schedule, cuts) for regime in regimes]
        fitting = [stages for stages in made if stages is not None]
        if fitting:
            return min(fitting, key=lambda stages: assess(costs, schedule, stages).makespan)
    ample = with_ample_memory(costs)
    menu = least_memory_menu(ample)
    if recompute.policy is not Policy.OPTIMAL:
        menu = policy_menu(ample, recompute)
    stages = stages_at(ample, menu, schedule, cuts)
    assert stages is not None, "everything fits an ample memory"
    return stages


def _lynx_stages(costs: PipelineCosts, schedule: Schedule, overlap: Overlap) -> tuple[Stage, ...]:
    """Lynx-HEU's own cuts and choices; where they do not fit, all devices have room."""
    if schedule.virtual_stages > 1 or schedule.splits_backward or costs.devices:
        raise BadRequest(
            "Lynx-HEU plans 1F1B or GPipe with one stage per device, all devices alike.",
            field="recompute.policy",
            hint="Leave schedule, virtual_stages and unlike devices out.",
        )
    stages = lynx_heu(costs, schedule, overlap) or lynx_heu(
        with_ample_memory(costs), schedule, overlap
    )
    assert stages is not None, "everything fits an ample memory"
    return stages


def _adapipe_stages(costs: PipelineCosts, schedule: Schedule) -> tuple[Stage, ...]:
    """AdaPipe's own cuts and choices; where it finds none that fit, all devices have room."""
    if schedule.virtual_stages > 1 or schedule.name != "1f1b":
        raise BadRequest(
            "AdaPipe plans 1F1B with one stage per device.",
            field="recompute.policy",
            hint="Leave schedule and virtual_stages out.",
        )
    if costs.devices:
        raise BadRequest(
            "AdaPipe plans pipelines of equal devices.",
            field="cluster.stage_devices",
            hint="Leave it out, or choose another policy.",
        )
    stages = adapipe(costs, schedule) or adapipe(with_ample_memory(costs), schedule)
    assert stages is not None, "everything fits an ample memory"
    return stages


def _checked(
    asked: Question,
    costs: PipelineCosts,
    layout: Layout,
    schedule: Schedule,
    stages: tuple[Stage, ...],
    assessment: Assessment,
) -> answers.Evaluation:
    """The evaluation, if the independent check confirms it."""
    used = asked.calibrated.used if asked.calibrated else None
    found = answer.evaluation(
        costs,
        layout,
        schedule,
        stages,
        assessment,
        asked.work(layout),
        asked.notes,
        used,
        asked.pools,
    )
    verify(
        costs,
        layout.schedule,
        layout.pipeline_parallel,
        found.stages,
        found.iteration_seconds,
        found.fits,
        layout.interleaving_group,
    )
    return found


def _plan(
    request: PlanRequest,
    asked: Question,
    outcome: Outcome,
    found: Found,
    free: Outcome | None,
    started: float,
) -> answers.Plan:
    stages = decided_stages(found.partition, found.menu)
    assessment = assess(found.costs, found.schedule, stages)
    checked = _checked(asked, found.costs, found.layout, found.schedule, stages, assessment)
    notes = [*checked.notes, *_loose(outcome, found)]
    checked = checked.model_copy(update={"notes": notes})
    lower = min(outcome.lower_bound, checked.iteration_seconds)
    gap = 1.0 - lower / checked.iteration_seconds if checked.iteration_seconds else 0.0
    return answers.Plan(
        **{name: getattr(checked, name) for name in answers.Evaluation.model_fields},
        id=plan_id(request),
        request=request.model_dump(mode="json", exclude_unset=True),
        status=answers.Status.SUCCEEDED,
        lower_bound_seconds=lower,
        gap=gap,
        baselines=baselines(
            found.costs,
            found.schedule,
            checked.iteration_seconds,
            asked.request.recompute.overlap or Overlap.OFF,
        ),
        explanation=explain(
            found.costs,
            found.schedule,
            assessment,
            found.regime,
            solve_again=_is_quick(found),
            prices=_prices(asked, found),
        ),
        alternatives=answer.alternatives(
            outcome.losers,
            checked.iteration_seconds,
            request.solver.alternatives,
            lambda loser: lost_by(loser, asked.costs(loser.layout), found),
        ),
        choices=answer.choices(outcome, found.layout, checked.iteration_seconds),
        trade_off=_trade_off(request, found, assessment),
        exports=_exports(asked, checked, found),
        restriction=_restriction(asked, found, free),
        solver=_report(outcome, time.perf_counter() - started),
    )


def _loose(outcome: Outcome, found: Found) -> list[str]:
    """What the gap is about where some layouts are bounded loosely."""
    seconds = found.partition.makespan
    if not outcome.unfinished or outcome.lower_bound >= min(outcome.by_bound, seconds):
        return []
    proved = max(1.0 - outcome.by_bound / seconds, 0.0)
    loose = 1.0 - outcome.lower_bound / seconds
    return [
        f"{outcome.unfinished:,} layouts with several stages per device or zero-bubble schedules "
        f"were not solved one by one; their bounds leave a gap of {loose:.1%}. No other layout is "
        f"more than {proved:.2%} faster than the plan. layout.virtual_stages and layout.schedule "
        "narrow the question."
    ]


def _trade_off(
    request: PlanRequest, found: Found, assessment: Assessment
) -> list[answers.TradeOff]:
    if not request.solver.trade_off or found.costs.devices:
        return []
    limit = request.solver.time_limit_seconds
    return [
        answers.TradeOff(
            memory_bytes=point.memory_bytes,
            peak_memory_bytes=point.peak_bytes,
            iteration_seconds=point.makespan,
            lower_bound_seconds=point.lower_bound,
        )
        for point in trade_off(found, assessment.peak_bytes, limit)
    ]


def _exports(asked: Question, checked: answers.Evaluation, found: Found) -> list[answers.Export]:
    """The plan in its target's words, or without one in Megatron-LM's as far as they go."""
    if asked.target is None and asked.request.model.profile is not None:
        return []
    setting = None if asked.target is None else dict(found.regime.setting)
    planned = planned_for(asked.request.training, checked, setting)
    return [(asked.target or TARGETS["megatron-lm"]).export(planned)]


def _restriction(asked: Question, found: Found, free: Outcome | None) -> answers.Restriction | None:
    """What the target costs against the plan of the free search."""
    if asked.target is None or free is None:
        return None
    seconds = found.partition.makespan
    best = None if free.found is None else min(free.found.partition.makespan, seconds)
    against = free.lower_bound if best is None else best
    return answers.Restriction(
        framework=asked.target.name,
        version=asked.target.version,
        setting={k: list(v) if isinstance(v, tuple) else v for k, v in found.regime.setting},
        iteration_seconds_free=best,
        lower_bound_seconds_free=min(free.lower_bound, seconds),
        cost=max(seconds / against - 1.0, 0.0) if against else 0.0,
    )


def _prices(asked: Question, found: Found) -> list[answers.Price]:
    """What restrictions would cost, where the plan is free and quickly made again."""
    recompute = asked.request.recompute
    free = recompute.policy is Policy.OPTIMAL and recompute.choice_per is ChoicePer.BLOCK
    if not free or not _is_quick(found) or found.costs.devices:
        return []
    if found.schedule.splits_backward:  # restricted menus know no late gradients of weights
        return []
    overlap = recompute.overlap or Overlap.OFF
    return prices(found.costs, found.layout, found.partition.makespan, overlap)


def _is_quick(found: Found) -> bool:
    """Whether the winner's partition is solved again in no time: decided by size, not by clock."""
    if found.regime.splits is not None:
        return False  # they are splits over so many stages
    blocks, stages = len(found.costs.sequence), found.schedule.stages
    passes = stages * found.schedule.micro_batches
    return found.schedule.virtual_stages == 1 and blocks * stages <= 8_192 and passes <= 65_536


def _no_plan(request: PlanRequest, outcome: Outcome, seconds: float) -> answers.Plan:
    """Why there is none: nothing fits, or time ran out before anything was found."""
    report = _report(outcome, seconds)
    if outcome.unfinished or outcome.nearest is None:
        return answers.Plan(
            id=plan_id(request),
            status=answers.Status.FAILED,
            solver=report,
            error="The time limit passed before a plan was found; give more time_limit_seconds.",
        )
    layout, missing = outcome.nearest
    if not missing.admitted:
        return answers.Plan(
            id=plan_id(request),
            status=answers.Status.INFEASIBLE,
            fits=False,
            solver=report,
            error="No split of the layers over the stages is one that the request or its framework "
            "admits, whatever the memory. Ask for another pipeline_parallel or virtual_stages, or "
            "let more be chosen.",
        )
    return answers.Plan(
        id=plan_id(request),
        status=answers.Status.INFEASIBLE,
        fits=False,
        shortfall=answers.Shortfall(
            stage=missing.stage,
            missing_bytes=missing.missing_bytes,
            needed_bytes=missing.needed_bytes,
            memory_limit_bytes=missing.needed_bytes - missing.missing_bytes,
            layout=answer.layout_answer(layout),
        ),
        solver=report,
        error=_shortfall_in_words(request, layout, missing),
    )


def _shortfall_in_words(request: PlanRequest, layout: Layout, missing: Infeasible) -> str:
    policy = request.recompute.policy
    how = "full recompute" if policy is Policy.OPTIMAL else f"policy '{policy.value}'"
    return (
        f"Nothing fits: under {how}, stage {missing.stage} of {layout.pipeline_parallel} misses "
        f"{missing.missing_bytes:.4g} bytes ({missing.needed_bytes:.4g} needed) even in the best "
        "split. Use more devices, a larger tensor_parallel or pipeline_parallel, a smaller "
        "micro_batch_size, or devices with more memory."
    )


def _report(outcome: Outcome, seconds: float) -> answers.SolverReport:
    partition = outcome.found.partition if outcome.found else None
    return answers.SolverReport(
        seconds=seconds,
        engine=partition.engine if partition else "bounds",
        version=SOLVER_VERSION,
        layouts_considered=outcome.considered,
        layouts_pruned=outcome.pruned,
        layouts_infeasible=outcome.infeasible,
        layouts_unfinished=outcome.unfinished,
        layouts_solved=outcome.solved,
        pruned_by={stage.value: count for stage, count in outcome.pruned_by.items()},
        rows=partition.rows if partition else 0,
        rounds=partition.rounds if partition else 0,
    )
