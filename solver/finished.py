"""The answer to a request for a plan: the winner of the search, checked, explained and priced."""

from __future__ import annotations

import time

from solver import answer
from solver import plan as answers
from solver.assess import Assessment, assess
from solver.baselines.methods import METHODS
from solver.baselines.side_by_side import baselines
from solver.brought_back import brought_back
from solver.costs.pipeline import PipelineCosts
from solver.explain import explain
from solver.identity import SOLVER_VERSION, plan_id
from solver.layouts import Layout
from solver.partition.outcome import Infeasible
from solver.partition.stages import Stage, decided_stages
from solver.prices import prices
from solver.question import Question
from solver.request import ChoicePer, Overlap, PlanRequest, Policy
from solver.schedules import Schedule
from solver.search.choice_costs import choice_costs, fixed_fields
from solver.search.lost import lost_by
from solver.search.outcome import Found, Outcome
from solver.search.regimes import regimes_of
from solver.search.search import Regimes
from solver.search.trade_off import trade_off
from solver.targets.planned import planned_for
from solver.targets.registry import TARGETS
from solver.verify import verify

AFTERWARDS = 0.1
"""Of the time limit, what explanations and prices may take where the search took all of it."""


def checked(
    asked: Question,
    costs: PipelineCosts,
    layout: Layout,
    schedule: Schedule,
    stages: tuple[Stage, ...],
    assessment: Assessment,
) -> answers.Evaluation:
    """The evaluation, if the independent check confirms it.

    Raises:
        SolverFailed: It does not.
    """
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


def finished_plan(
    request: PlanRequest,
    asked: Question,
    outcome: Outcome,
    found: Found,
    free: Outcome | None,
    started: float,
    deadline: float,
) -> answers.Plan:
    """The answer with the winner of a search.

    Args:
        request: As it came.
        asked: What it means.
        outcome: How the search ended, with what it proves.
        found: Its winner.
        free: Where a framework restricts the search, how the free one ended.
        started: When the work began, by ``time.perf_counter``.
        deadline: When it should be done, by ``time.monotonic``.

    Raises:
        SolverFailed: The independent check does not confirm it.
    """

    def left() -> float:
        return max(deadline - time.monotonic(), AFTERWARDS * request.solver.time_limit_seconds)

    stages = decided_stages(found.partition, found.menu)
    stages = brought_back(found.costs, found.schedule, stages)
    assessment = assess(found.costs, found.schedule, stages)
    evaluation = checked(asked, found.costs, found.layout, found.schedule, stages, assessment)
    notes = [*evaluation.notes, *_loose(outcome, found)]
    evaluation = evaluation.model_copy(update={"notes": notes})
    lower = min(outcome.lower_bound, evaluation.iteration_seconds)
    gap = 1.0 - lower / evaluation.iteration_seconds if evaluation.iteration_seconds else 0.0
    return answers.Plan(
        **{name: getattr(evaluation, name) for name in answers.Evaluation.model_fields},
        id=plan_id(request),
        request=request.model_dump(mode="json", exclude_unset=True),
        status=answers.Status.SUCCEEDED,
        lower_bound_seconds=lower,
        gap=gap,
        baselines=baselines(
            _on_device(asked, found),
            found.schedule,
            evaluation.iteration_seconds,
            asked.request.recompute.overlap or Overlap.OFF,
            request.solver.baselines,
        ),
        explanation=explain(
            found.costs,
            found.schedule,
            assessment,
            found.regime,
            solve_again=_is_quick(found),
            prices=_prices(asked, found, left()),
            time_limit_seconds=left(),
        ),
        alternatives=answer.alternatives(
            outcome.losers,
            evaluation.iteration_seconds,
            request.solver.alternatives,
            lambda loser: lost_by(loser, asked.costs(loser.layout), found),
        ),
        choices=choice_costs(outcome, found.layout, evaluation.iteration_seconds),
        fixed_fields=fixed_fields(asked.request.layout),
        trade_off=_trade_off(asked, found, assessment, left()),
        exports=_exports(asked, evaluation, found),
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
    asked: Question, found: Found, assessment: Assessment, seconds_left: float
) -> list[answers.TradeOff]:
    options = asked.request.solver
    if not options.trade_off or found.costs.devices:
        return []
    regimes = _own_regime(found) if found.regime.method else regimes_of(asked)
    costs = asked.costs(found.layout)
    return [
        answers.TradeOff(
            memory_bytes=point.memory_bytes,
            peak_memory_bytes=point.peak_bytes,
            iteration_seconds=point.makespan,
            lower_bound_seconds=point.lower_bound,
        )
        for point in trade_off(found, costs, regimes, assessment.peak_bytes, seconds_left)
    ]


def _own_regime(found: Found) -> Regimes:
    return lambda _layout, _costs: [found.regime]


def _exports(asked: Question, evaluation: answers.Evaluation, found: Found) -> list[answers.Export]:
    """The plan in its target's words, or without one in Megatron-LM's as far as they go."""
    if asked.target is None and asked.request.model.profile is not None:
        return []
    setting = None if asked.target is None else dict(found.regime.setting)
    planned = planned_for(asked.request.training, evaluation, setting)
    return [(asked.target or TARGETS["megatron-lm"]).exported(planned)]


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


def _prices(asked: Question, found: Found, seconds_left: float) -> list[answers.Price]:
    """What restrictions would cost, where the plan is free and quickly made again."""
    recompute = asked.request.recompute
    free = recompute.policy is Policy.OPTIMAL and recompute.choice_per is ChoicePer.BLOCK
    if not free or not _is_quick(found) or found.costs.devices:
        return []
    overlap = recompute.overlap or Overlap.OFF
    return prices(
        _on_device(asked, found),
        found.layout,
        found.partition.makespan,
        overlap,
        offloads=bool(found.costs.offload_bytes),
        time_limit_seconds=seconds_left,
    )


def _on_device(asked: Question, found: Found) -> PipelineCosts:
    """The winner's costs with every activation on its device."""
    return asked.costs(found.layout) if found.costs.offload_bytes else found.costs


def _is_quick(found: Found) -> bool:
    """Whether the winner's partition is solved again in no time: decided by size, not by clock."""
    if found.regime.splits is not None:
        return False  # they are splits over so many stages
    blocks, stages = len(found.costs.sequence), found.schedule.stages
    passes = stages * found.schedule.micro_batches
    if found.schedule.virtual_stages > 1:  # chunks that share a device take a hundred times as long
        return blocks * stages <= 64 and passes <= 256
    return blocks * stages <= 8_192 and passes <= 65_536


def no_plan(request: PlanRequest, outcome: Outcome, seconds: float) -> answers.Plan:
    """Why there is none: nothing fits, or time ran out before anything was found."""
    report = _report(outcome, seconds)
    if outcome.unfinished or outcome.nearest is None:
        return answers.Plan(
            id=plan_id(request),
            status=answers.Status.FAILED,
            solver=report,
            error=_undecided_in_words(request, seconds),
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


def _undecided_in_words(request: PlanRequest, seconds: float) -> str:
    if seconds >= request.solver.time_limit_seconds:
        return "The time limit passed before a plan was found; give more time_limit_seconds."
    return (
        "No plan was found, and it could not be proved that none fits: memory is about what is "
        "needed. Allow a little more of it, more devices or fewer virtual_stages."
    )


def _shortfall_in_words(request: PlanRequest, layout: Layout, missing: Infeasible) -> str:
    policy = request.recompute.policy
    how = "full recompute" if policy is Policy.OPTIMAL else f"policy '{policy.value}'"
    split = "its even split" if policy in METHODS else "the best split"
    return (
        f"Nothing fits: under {how}, stage {missing.stage} of {layout.pipeline_parallel} misses "
        f"{missing.missing_bytes:.4g} bytes ({missing.needed_bytes:.4g} needed) even in "
        f"{split}. Use more devices, a larger tensor_parallel or pipeline_parallel, a smaller "
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
