"""Whether a plan is as expected, and what changed between two batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from service.batches.documents import BatchDocument, CaseResult, CaseStatus, Expectations
from service.console.quantities import duration, percent

_SAME = 1e-9  # what rounding may make of equal times


def judged(
    name: str,
    plan_id: str,
    expectations: Expectations,
    answer: Mapping[str, Any],
    reference_seconds: float | None = None,
) -> CaseResult:
    """The result of a case whose plan is answered.

    Args:
        name: The case's.
        plan_id: The plan's.
        expectations: What must hold.
        answer: The plan's document.
        reference_seconds: Iteration time of the plan in ``max_slowdown_against``.
    """
    if answer["status"] not in ("succeeded", "infeasible"):
        return CaseResult(
            name=name,
            plan_id=plan_id,
            status=CaseStatus.ERROR,
            reasons=[answer.get("error") or f"The plan is {answer['status']}."],
        )
    reasons = list(_misses(expectations, answer, reference_seconds))
    return CaseResult(
        name=name,
        plan_id=plan_id,
        status=CaseStatus.FAILED if reasons else CaseStatus.PASSED,
        reasons=reasons,
        fits=answer["status"] == "succeeded",
        iteration_seconds=answer.get("iteration_seconds"),
        peak_memory_bytes=answer.get("peak_memory_bytes"),
        model_flops_utilization=answer.get("model_flops_utilization"),
        gap=answer.get("gap"),
        solver_seconds=(answer.get("solver") or {}).get("seconds"),
    )


def failed(name: str, plan_id: str, reason: str) -> CaseResult:
    """The result of a case without a plan."""
    return CaseResult(name=name, plan_id=plan_id, status=CaseStatus.ERROR, reasons=[reason])


def _misses(
    expected: Expectations, answer: Mapping[str, Any], reference_seconds: float | None
) -> Iterator[str]:
    if answer["status"] == "infeasible":
        if expected.fits:
            yield answer.get("error") or "Nothing fits."
        return
    seconds = answer["iteration_seconds"]
    if not expected.fits:
        yield f"A plan fits, and takes {seconds:.6g} s; none was expected to."
    most = expected.max_iteration_seconds
    if most is not None and seconds > most * (1 + _SAME):
        yield f"An iteration takes {seconds:.6g} s, more than {most:.6g} s."
    peak, room = answer.get("peak_memory_bytes"), expected.max_peak_memory_bytes
    if room is not None and (peak is None or peak > room):
        yield f"The fullest device holds {peak or 0.0:,.0f} bytes, more than {room:,.0f}."
    reached, least = answer.get("model_flops_utilization"), expected.min_model_flops_utilization
    if least is not None and reached is None:
        yield "The utilization is not known: a profile does not say how many FLOPs it stands for."
    elif least is not None and reached is not None and reached < least * (1 - _SAME):
        yield f"The utilization is {percent(reached)}, less than {percent(least)}."
    if reference_seconds is not None:
        slower = seconds / reference_seconds - 1
        if slower > expected.max_slowdown + _SAME:
            yield (
                f"An iteration takes {seconds:.6g} s, {percent(slower)} more than the"
                f" {reference_seconds:.6g} s of plan {expected.max_slowdown_against}."
            )


def changes(now: BatchDocument, earlier: BatchDocument) -> list[str]:
    """What is different of the finished cases of the two, by name."""
    before = {case.name: case for case in earlier.cases}
    found = [
        f"{case.name}: {said}"
        for case in now.cases
        if case.status is not CaseStatus.PENDING
        for said in _change(case, before.get(case.name))
    ]
    names = {case.name for case in now.cases}
    return found + [f"{name}: no longer in the batch." for name in before if name not in names]


def _change(now: CaseResult, before: CaseResult | None) -> Iterator[str]:
    if before is None:
        yield "new."
        return
    if now.status != before.status:
        yield f"was {before.status}, is {now.status}."
    if now.iteration_seconds and before.iteration_seconds:
        slower = now.iteration_seconds / before.iteration_seconds - 1
        if abs(slower) > _SAME:
            word = "slower" if slower > 0 else "faster"
            yield (
                f"{percent(abs(slower))} {word}, {duration(before.iteration_seconds)} →"
                f" {duration(now.iteration_seconds)}."
            )
    elif now.fits != before.fits and now.fits is not None and before.fits is not None:
        yield "now something fits." if now.fits else "nothing fits any more."
