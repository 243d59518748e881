"""The first page: the form that makes a plan, and recent plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi.responses import HTMLResponse

from service.catalogues import known_devices, known_models
from service.pages import render
from service.pages.form import MODEL_FORMS
from service.problems import Problem
from service.store.tables import PlanRow
from solver.request import PlanRequest

_GIB = 2.0**30
_START = {
    "model_form": "name",
    "model.name": "llama-3.1-70b",
    "cluster.device": "H100-SXM5-80GB",
    "cluster.nodes": "8",
    "cluster.devices_per_node": "8",
    "training.sequence_length": "8192",
    "training.global_batch_size": "512",
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


def page(
    plans: list[Recent], fields: Mapping[str, str], problem: Problem | None = None
) -> HTMLResponse:
    """The page; ``fields`` fill the form where they are given."""
    return render.page(
        "make.html",
        status_code=200 if problem is None else 422,
        fields=dict(fields) or _START,
        problems=problem.parts if problem else [],
        models=known_models().models,
        devices=known_devices().devices,
        plans=plans,
    )


def fields_of(request: PlanRequest) -> dict[str, str]:
    """The form that makes this request."""
    given: dict[str, Any] = request.model_dump(mode="json", exclude_defaults=True)
    form = next(name for name in MODEL_FORMS if getattr(request.model, name) is not None)
    value = given["model"][form]
    fields = {
        "model_form": form,
        f"model.{form}": value if isinstance(value, str) else json.dumps(value, indent=2),
    }
    for part in ("cluster", "training", "layout", "recompute", "target", "solver"):
        for name, value in (given.get(part) or {}).items():
            if isinstance(value, str | int | float):
                fields[f"{part}.{name}"] = _written(value)
    if request.cluster.memory_bytes is not None:
        fields["cluster.memory_gib"] = _written(request.cluster.memory_bytes / _GIB)
    return fields


def _written(value: str | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
