"""A finished plan projected onto a framework: the nearest that it can be told, costed again.

The layout changes only where the framework refuses it. The split stays if the framework can be
given it; of what it can be told to recompute, the fastest that fits is taken. Where no setting
fits that split, or where the framework divides the model by a rule of its own, the split is the
framework's best one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from solver import planner
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.layouts import Layout, listed
from solver.partition.candidates import Cut
from solver.partition.regime import Regime
from solver.plan import Evaluation, LayoutAnswer, Plan
from solver.projections.documents import Figures, Projection, ProjectionRequest
from solver.projections.settled import settled
from solver.question import Question, only_layout, question
from solver.request import (
    Granularity,
    LayoutRequest,
    PlanRequest,
    Policy,
    Recompute,
    Training,
)
from solver.request import Target as TargetRequest
from solver.search.search import search
from solver.targets.planned import planned_for
from solver.targets.registry import target_named
from solver.targets.target import Target
from solver.workload.software import facts_of

_MOST_CHANGES = 8
_OF_A_PROFILE = ("pipeline_parallel", "virtual_stages", "schedule", "micro_batch_size")


def project(asked: ProjectionRequest) -> Projection:
    """The plan as the framework can run it, beside what it was.

    Raises:
        UnknownName: There is no such framework.
        BadRequest: The plan holds no stages, or cuts layers in two.
    """
    target = target_named(asked.framework, "framework")
    plan = asked.plan
    if plan.layout is None or not plan.stages or plan.iteration_seconds is None:
        raise BadRequest("There is no plan to project.", hint="Give one that succeeded.")
    if asked.job.solver.granularity is not Granularity.LAYER:
        raise BadRequest(
            f"{target.title} cannot cut a layer in two.",
            field="solver.granularity",
            hint="Plan with whole layers.",
        )
    figures = Figures(
        iteration_seconds=plan.iteration_seconds,
        peak_memory_bytes=plan.peak_memory_bytes or 0.0,
        fits=bool(plan.fits),
    )
    request, found, layout, changes = _runnable(asked.job, plan.layout, target)
    costs = found.costs(layout)
    kept = _with_the_cuts(plan, target, costs, layout, found)
    if kept is None:
        changes.append(f"The split is the best that {target.title} can be given.")
        return _planned_anew(request, target, figures, changes)
    evaluation, setting = kept
    return _answer(request, target, figures, changes, evaluation, setting)


def _runnable(
    job: PlanRequest, layout: LayoutAnswer, target: Target
) -> tuple[PlanRequest, Question, Layout, list[str]]:
    """The request of the plan's own layout, changed as far as the framework refuses it."""
    said = layout.model_dump(exclude_none=True)
    names = _OF_A_PROFILE if job.model.profile is not None else tuple(LayoutRequest.model_fields)
    fields = {name: said[name] for name in names if name in said}
    changes: list[str] = []
    for _ in range(_MOST_CHANGES):
        request = job.model_copy(
            update={
                "layout": LayoutRequest.model_validate(fields),
                "recompute": Recompute(policy=Policy.OPTIMAL),
                "target": None,
                "training": _training(job, target),
            }
        )
        asked = question(request)
        one = only_layout(asked)
        refusal = target.refusal(one)
        if refusal is None:
            return request, asked, one, changes
        before = fields.get(refusal.field, getattr(one, refusal.field))
        fields[refusal.field] = _value(refusal.nearest)
        changes.append(f"{refusal.detail} {refusal.field}: {before}, now {refusal.nearest}.")
    raise BadRequest(f"{target.title} runs no layout near the plan's.", field="framework")


def _training(job: PlanRequest, target: Target) -> Training:
    """The run without its software where the framework is another."""
    if target.name in facts_of(job.training.software).targets:
        return job.training
    return job.training.model_copy(update={"software": None})


def _value(nearest: str) -> int | bool | str:
    if nearest in ("true", "false"):
        return nearest == "true"
    return int(nearest) if nearest.isdigit() else nearest


def _with_the_cuts(
    plan: Plan, target: Target, costs: PipelineCosts, layout: Layout, asked: Question
) -> tuple[Evaluation, dict[str, object]] | None:
    """The plan's own split under the framework's best setting; None if that cannot be."""
    sizes = [sum(count for _, count in stage.blocks) for stage in plan.stages]
    edges = [0, *itertools.accumulate(sizes)]
    cuts = tuple(itertools.pairwise(edges))
    if len(cuts) != layout.pipeline_parallel * layout.virtual_stages:
        return None
    if edges[-1] != len(costs.sequence):
        return None
    regimes = [
        replace(regime, splits=(cuts,))
        for regime in target.regimes(costs, layout)
        if _allows(regime, costs, cuts)
    ]
    if not regimes:
        return None
    outcome = search(
        listed([layout], [costs.micro_batches]),
        lambda _: costs,
        lambda _, __: regimes,
        relative_gap=0.0,
        time_limit_seconds=asked.request.solver.time_limit_seconds,
    )
    if outcome.found is None:
        return None
    return settled(asked, outcome.found, costs), dict(outcome.found.regime.setting)


def _allows(regime: Regime, costs: PipelineCosts, cuts: tuple[Cut, ...]) -> bool:
    """Whether the framework can be given this split under a setting."""
    if regime.splits is not None:
        return cuts in regime.splits
    if regime.admits is None:
        return True
    kinds = len(costs.blocks)
    counts = [np.bincount(costs.sequence[start:stop], minlength=kinds) for start, stop in cuts]
    return bool(regime.admits(np.array(counts)).all())


def _planned_anew(
    request: PlanRequest, target: Target, figures: Figures, changes: list[str]
) -> Projection:
    """The framework's own best plan of the layout."""
    made = planner.plan(request.model_copy(update={"target": TargetRequest(framework=target.name)}))
    if made.iteration_seconds is None or made.restriction is None:
        return Projection(
            framework=target.name,
            version=target.version,
            plan=figures,
            projected=None,
            changes=changes,
            error=made.error or f"{target.title} can run nothing of this layout.",
        )
    evaluation = Evaluation(**{name: getattr(made, name) for name in Evaluation.model_fields})
    return _answer(request, target, figures, changes, evaluation, dict(made.restriction.setting))


def _answer(
    request: PlanRequest,
    target: Target,
    figures: Figures,
    changes: list[str],
    evaluation: Evaluation,
    setting: dict[str, object],
) -> Projection:
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in setting.items()}
    return Projection(
        framework=target.name,
        version=target.version,
        plan=figures,
        projected=evaluation,
        setting=plain,
        slower=evaluation.iteration_seconds / figures.iteration_seconds - 1.0,
        changes=changes,
        export=target.export(planned_for(request.training, evaluation, setting)),
    )
