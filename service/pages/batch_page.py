"""The page of a batch: which cases are as expected, which are not, and what changed."""

from __future__ import annotations

from fastapi.responses import HTMLResponse

from service.batches.documents import BatchDocument, CaseStatus
from service.pages import render

_WORDS = {
    CaseStatus.PASSED: "as expected",
    CaseStatus.FAILED: "not as expected",
    CaseStatus.ERROR: "without a plan to judge",
    CaseStatus.PENDING: "pending",
}


def page(batch: BatchDocument) -> HTMLResponse:
    """The page; while cases are pending it follows them."""
    return render.page("batch.html", batch=batch, words=_WORDS, sentence=_sentence(batch))


def listing(batches: list[BatchDocument]) -> HTMLResponse:
    """The list of batches, newest first."""
    rows = [(batch, _sentence(batch)) for batch in batches]
    return render.page("batches.html", rows=rows)


def _sentence(batch: BatchDocument) -> str:
    total, counts = len(batch.cases), batch.counts
    if batch.passed is None:
        done = total - counts[CaseStatus.PENDING]
        return f"{done:,} of {total:,} cases are done."
    if batch.passed:
        return "The case is as expected." if total == 1 else f"All {total:,} cases are as expected."
    bad = counts[CaseStatus.FAILED] + counts[CaseStatus.ERROR]
    verb = "is" if bad == 1 else "are"
    return f"{bad:,} of {total:,} {'case' if total == 1 else 'cases'} {verb} not as expected."
