"""A batch as Markdown, for the page of a pull request."""

from __future__ import annotations

from service.batches.documents import BatchDocument, CaseResult, CaseStatus
from service.console.quantities import duration, percent, size

_MARKS = {
    CaseStatus.PASSED: "✅ passed",
    CaseStatus.FAILED: "❌ failed",
    CaseStatus.ERROR: "⚠️ error",
    CaseStatus.PENDING: "⏳ pending",
}


def summary(batch: BatchDocument) -> str:
    """The text: how many passed, what did not, every case, and what changed."""
    counts = batch.counts
    said = [f"{counts[status]} {status}" for status in CaseStatus if counts[status]]
    lines = [f"## Stagecut: {_cell(batch.name)}", "", f"{', '.join(said)} of {len(batch.cases)}."]
    bad = [case for case in batch.cases if case.reasons]
    if bad:
        lines += ["", "### Not as expected", ""]
        lines += [f"- **{_cell(case.name)}**: {_cell(' '.join(case.reasons))}" for case in bad]
    if batch.against is not None:
        lines += ["", f"### Changes since batch {_cell(batch.against)}", ""]
        lines += [f"- {_cell(change)}" for change in batch.changes] or ["None."]
    lines += [
        "",
        "### Cases",
        "",
        "| case | | iteration | memory | utilization | plan |",
        "|---|---|---:|---:|---:|---|",
        *(_row(case) for case in batch.cases),
        "",
    ]
    return "\n".join(lines)


def _row(case: CaseResult) -> str:
    seconds, peak = case.iteration_seconds, case.peak_memory_bytes
    reached = case.model_flops_utilization
    cells = [
        _cell(case.name),
        _MARKS[case.status],
        duration(seconds) if seconds is not None else "nothing fits" if case.fits is False else "",
        size(peak) if peak is not None else "",
        percent(reached) if reached is not None else "",
        f"`{case.plan_id[:12]}`",
    ]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """On one line, and not taken for Markdown or HTML."""
    plain = " ".join(text.split())
    for sign in "\\`*_|<>[]":
        plain = plain.replace(sign, f"\\{sign}")
    return plain
