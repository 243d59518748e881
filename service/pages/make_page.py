"""The first page: the form that makes a plan, and recent plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from service.catalogues import known_devices, known_models
from service.pages import render
from service.pages.asked import as_asked
from service.pages.form import JSON_FIELD, as_text, fields_of
from service.pages.options import options
from service.problems import Problem
from service.store.tables import PlanRow
from solver.request import PlanRequest

_START = {
    "model": {"name": "llama-3.1-70b"},
    "cluster": {"device": "H100-SXM5-80GB", "nodes": 8, "devices_per_node": 8},
    "training": {"sequence_length": 8192, "global_batch_size": 512},
}


@dataclass(frozen=True)
class Recent:
    """A line in the list of recent plans."""

    id: str
    status: str
    title: str
    iteration_seconds: float | None
    gap: float | None
    created_at: float


def recent(row: PlanRow) -> Recent:
    """The line of a stored plan."""
    title = row.model
    if row.device:
        title += f" on {row.devices:,} × {row.device}" if row.devices else f" on {row.device}"
    return Recent(row.id, row.status, title, row.iteration_seconds, row.gap, row.created_at)


def filled(request: PlanRequest | None) -> dict[str, str]:
    """The form that shows this request, or one to begin with, and the whole as JSON."""
    given = _START if request is None else as_asked(request)
    return fields_of(given) | {JSON_FIELD: as_text(given)}


def page(
    plans: list[Recent], fields: Mapping[str, str], problem: Problem | None = None
) -> HTMLResponse:
    """The page; ``fields`` fill the form."""
    return render.page(
        "make.html",
        status_code=200 if problem is None else 422,
        fields=dict(fields),
        problems=problem.parts if problem else [],
        models=known_models().models,
        devices=known_devices().devices,
        plans=plans,
        **options(),
    )
