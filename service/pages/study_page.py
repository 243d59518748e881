"""What every page of a scheduler's question shares: asking it, the list of them, one under way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.responses import HTMLResponse

from service.catalogues import known_devices, known_models
from service.pages import render
from service.pages.form import JSON_FIELD, as_text
from service.pages.make_page import Recent
from service.pages.options import options
from service.pages.study_form import fields_of
from service.problems import Problem
from service.store.tables import PlanRow
from solver.capacity.documents import CapacityRequest
from solver.contingencies.documents import ContingencyRequest


@dataclass(frozen=True)
class StudyKind:
    """A kind of question: what it is asked with, its place on the site, what its pages call it."""

    kind: str
    asked: type[CapacityRequest] | type[ContingencyRequest]
    section: str
    title: str
    lead: str
    one: str
    submit: str
    counted: str


CAPACITY = StudyKind(
    "capacity",
    CapacityRequest,
    "capacity",
    "Capacity curves",
    "What a job is worth on every allocation: which sizes are useful, and where more nodes stop"
    " paying.",
    "Capacity curve",
    "Work out the curve",
    "sizes",
)
CONTINGENCY = StudyKind(
    "contingency",
    ContingencyRequest,
    "contingencies",
    "When nodes fail",
    "What a running plan should do about every failure, worked out before it happens.",
    "Contingencies",
    "Work out what to do",
    "node counts and failures",
)


def filled(kind: StudyKind, request: Mapping[str, Any]) -> dict[str, str]:
    """The form that shows this question, and the whole as JSON."""
    return fields_of(kind.kind, request) | {JSON_FIELD: as_text(request)}


def asking(
    kind: StudyKind,
    rows: Sequence[PlanRow],
    sources: Sequence[Recent],
    fields: Mapping[str, str],
    *,
    of_plan: str | None = None,
    problem: Problem | None = None,
) -> HTMLResponse:
    """The form, and the latest questions of the kind; a job is called by its model and device.

    ``sources`` are plans to begin with; ``of_plan`` is the one that the form begins with.
    """
    titles = [f"{row.model} on {row.device}" if row.device else row.model for row in rows]
    return render.page(
        "study.html",
        status_code=200 if problem is None else 422,
        kind=kind,
        rows=list(zip(rows, titles, strict=True)),
        sources=sources,
        fields=dict(fields),
        of_plan=of_plan,
        problems=problem.parts if problem else [],
        models=known_models().models,
        devices=known_devices().devices,
        **options(),
    )


def unanswered(
    kind: StudyKind,
    study_id: str,
    heading: str,
    status: str,
    problem: Problem | None,
    progress: str | None,
) -> HTMLResponse:
    """One that is under way, was cancelled or failed; ``progress`` is JSON text."""
    told = json.loads(progress) if progress else {}
    return render.page(
        "study_without_answer.html",
        kind=kind,
        study_id=study_id,
        title=heading,
        status=status,
        pending=status in ("queued", "running"),
        problem=problem,
        done=told.get("layouts_done") or 0,
        total=told.get("layouts_total") or 0,
    )
