"""A plan is judged by what is expected of it, and two batches by what changed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from service.batches.documents import BatchDocument, CaseResult, CaseStatus, Expectations
from service.batches.judging import changes, judged

ANSWER = {
    "status": "succeeded",
    "iteration_seconds": 2.0,
    "peak_memory_bytes": 4.0e10,
    "model_flops_utilization": 0.4,
    "solver": {"seconds": 0.25},
}
NOTHING_FITS = {"status": "infeasible", "error": "Nothing fits: 2 GB are missing."}


def verdict(answer: dict[str, Any], reference: float | None = None, **expected: Any) -> CaseResult:
    return judged("case", "p", Expectations(**expected), answer, reference)


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"max_iteration_seconds": 2.0},
        {"max_peak_memory_bytes": 4.0e10},
        {"min_model_flops_utilization": 0.4},
    ],
)
def test_a_plan_at_its_limit_is_as_expected(expected: dict[str, Any]) -> None:
    assert verdict(ANSWER, **expected).status is CaseStatus.PASSED


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        ({"max_iteration_seconds": 1.999}, "An iteration takes 2 s, more than 1.999 s."),
        ({"max_peak_memory_bytes": 3.9e10}, "holds 40,000,000,000 bytes"),
        ({"min_model_flops_utilization": 0.41}, "The utilization is 40%, less than 41%."),
        ({"fits": False}, "none was expected"),
    ],
)
def test_what_is_not_as_expected_is_said(expected: dict[str, Any], reason: str) -> None:
    found = verdict(ANSWER, **expected)
    assert found.status is CaseStatus.FAILED
    assert reason in found.reasons[0]


def test_every_miss_is_a_reason_of_its_own() -> None:
    found = verdict(ANSWER, max_iteration_seconds=1, max_peak_memory_bytes=1)
    assert len(found.reasons) == 2


def test_a_utilization_that_is_not_known_is_a_miss() -> None:
    answer = ANSWER | {"model_flops_utilization": None}
    assert "not known" in verdict(answer, min_model_flops_utilization=0.1).reasons[0]


def test_nothing_fits_is_a_miss_unless_expected() -> None:
    assert verdict(NOTHING_FITS).reasons == [NOTHING_FITS["error"]]
    assert verdict(NOTHING_FITS, fits=False).status is CaseStatus.PASSED


def test_a_plan_that_was_not_found_is_an_error() -> None:
    found = verdict({"status": "failed", "error": "The time limit passed."})
    assert (found.status, found.reasons) == (CaseStatus.ERROR, ["The time limit passed."])


def test_a_slowdown_is_measured_against_the_other_plan() -> None:
    assert verdict(ANSWER, 2.0, max_slowdown_against="q").status is CaseStatus.PASSED
    assert verdict(ANSWER, 1.95, max_slowdown_against="q").status is CaseStatus.FAILED
    allowed = verdict(ANSWER, 1.95, max_slowdown_against="q", max_slowdown=0.03)
    assert allowed.status is CaseStatus.PASSED


def test_where_nothing_is_to_fit_nothing_else_can_be_expected() -> None:
    with pytest.raises(ValidationError, match="nothing else to expect"):
        Expectations(fits=False, max_iteration_seconds=1)


def batch(**seconds: float | None) -> BatchDocument:
    cases = [
        CaseResult(name=name, plan_id="p", status=CaseStatus.PASSED, iteration_seconds=value)
        for name, value in seconds.items()
    ]
    return BatchDocument(id="b", name="n", status="finished", created_at=0, cases=cases)


def test_changes_are_what_is_slower_faster_new_or_gone() -> None:
    found = changes(batch(a=2.0, b=1.0, c=1.0, e=3.0), batch(a=1.0, b=1.0, c=2.0, d=1.0))
    assert found == [
        "a: 100% slower, 1.00 s → 2.00 s.",
        "c: 50% faster, 2.00 s → 1.00 s.",
        "e: new.",
        "d: no longer in the batch.",
    ]


def test_a_verdict_that_turned_is_a_change() -> None:
    now = batch(a=1.0)
    now.cases[0].status = CaseStatus.FAILED
    assert changes(now, batch(a=1.0)) == ["a: was passed, is failed."]
