"""What a team runs today, beside the best plan for its framework and the best of all.

Today's run is evaluated as it is; then its split and its recompute are left to the solver, at the
same parallel sizes.
"""

from __future__ import annotations

from solver import planner
from solver.identity import content_id
from solver.imports.documents import ImportAnswer, ImportStudy
from solver.plan import Evaluation, Plan
from solver.projections.settled import under_setting
from solver.targets.planned import planned_for
from solver.targets.registry import target_named


def compare(asked: ImportStudy) -> ImportAnswer:
    """Evaluate today's run and plan it anew.

    Raises:
        BadRequest: It cannot be evaluated, or not be planned.
        UnknownName: There is no such framework.
    """
    target = target_named(asked.framework, "framework")
    if asked.setting:
        yours = under_setting(asked.today, target, asked.setting, "configuration")
    else:
        yours = planner.evaluate(asked.today)
    best = planner.plan(asked.job)
    given_up: list[str] = []
    taken_up: list[str] = []
    if best.stages:
        setting = best.restriction.setting if best.restriction else None
        today = planned_for(asked.today.training, yours, asked.setting or None)
        before = _lines(target.export(today).text)
        after = _lines(target.export(planned_for(asked.job.training, best, setting)).text)
        given_up = [line for line in before if line not in after]
        taken_up = [line for line in after if line not in before]
    return ImportAnswer(
        id=content_id("import", asked),
        status=best.status.value,
        framework=asked.framework,
        yours=yours,
        best=best,
        given_up=given_up,
        taken_up=taken_up,
        words=_in_words(target.title, yours, best),
    )


def _lines(text: str) -> list[str]:
    return [line.removesuffix(" \\").rstrip() for line in text.splitlines()]


def _in_words(framework: str, yours: Evaluation, best: Plan) -> list[str]:
    fullest = max(range(len(yours.stages)), key=lambda s: yours.stages[s].peak_memory_bytes)
    bytes_there = yours.stages[fullest].peak_memory_bytes
    first = f"Yours: {yours.iteration_seconds:.3g} s, {bytes_there / 1e9:.3g} GB on stage {fullest}"
    lines = [first + ("." if yours.fits else ", which does not fit.")]
    if best.iteration_seconds is None:
        return [*lines, best.error or "There is no plan at these parallel sizes."]
    lines.append(f"Best for {framework} at these sizes: {best.iteration_seconds:.3g} s.")
    if best.restriction and best.restriction.iteration_seconds_free is not None:
        free = best.restriction.iteration_seconds_free
        lines.append(f"Best of all at these sizes: {free:.3g} s.")
    return lines
