"""What every page of a scheduler's question shares: the list of them, and one without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from service.pages import render
from service.problems import Problem
from service.store.tables import PlanRow


@dataclass(frozen=True)
class StudyKind:
    """A kind of question: its place on the site, and what its pages call it."""

    kind: str
    section: str
    title: str
    lead: str
    one: str


CAPACITY = StudyKind(
    "capacity",
    "capacity",
    "Capacity curves",
    "What a job is worth on every allocation: which sizes are useful, and where more nodes stop"
    " paying.",
    "Capacity curve",
)
CONTINGENCY = StudyKind(
    "contingency",
    "contingencies",
    "When nodes fail",
    "What a running plan should do about every failure, worked out before it happens.",
    "Contingencies",
)


def listing(kind: StudyKind, rows: Sequence[PlanRow]) -> HTMLResponse:
    """The latest questions of a kind; a job is called by its model and device, of any number."""
    titles = [f"{row.model} on {row.device}" if row.device else row.model for row in rows]
    return render.page("studies.html", kind=kind, rows=list(zip(rows, titles, strict=True)))


def unanswered(
    kind: StudyKind, study_id: str, heading: str, status: str, problem: Problem | None
) -> HTMLResponse:
    """One that is under way, was cancelled or failed."""
    return render.page(
        "study_without_answer.html",
        kind=kind,
        study_id=study_id,
        title=heading,
        status=status,
        pending=status in ("queued", "running"),
        problem=problem,
    )
