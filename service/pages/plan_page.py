"""The page of a plan, in whatever state it is."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import HTMLResponse, Response

from service.pages import render
from service.pages.drawings import View, draw
from service.pages.parts import MemoryPart, Pictures, TimelinePart
from service.pages.pictures.breakdown import LINES
from service.pages.pictures.layouts_considered import parts
from service.pages.pictures.memory import PARTS
from service.pages.raster import png
from service.pages.shown import ShownPlan, title
from service.pages.shown import shown as shown_of
from service.pages.stylesheet import stylesheet
from service.problems import Problem
from service.schema_examples import sample
from solver.request import PlanRequest


def prepare() -> None:
    """Draw a sample, so that the first reader need not wait for what is slow only once."""
    render.prepare()
    report("sample", shown_of(json.dumps(sample("request")), json.dumps(sample("plan"))))


def waiting(plan_id: str, status: str, heading: str) -> HTMLResponse:
    """A solve under way."""
    return render.page("waiting.html", plan_id=plan_id, status=status, title=heading)


def without_answer(
    plan_id: str, status: str, request: PlanRequest, problem: Problem | None
) -> HTMLResponse:
    """A plan that was cancelled or failed."""
    return render.page(
        "without_answer.html",
        plan_id=plan_id,
        status=status,
        title=title(request),
        problem=problem,
    )


def answered(plan_id: str, shown: ShownPlan, view: View, base_url: str) -> Response:
    """A finished plan, sent as it is drawn; what is seen often is kept."""
    context = _everything(plan_id, shown, view, base_url)
    return render.streamed("plan.html", (shown, view, base_url), context)


def report(plan_id: str, shown: ShownPlan, base_url: str = "") -> str:
    """The page as one file without scripts, styles inside."""
    return render.html(
        "report.html",
        styles=stylesheet(),
        **_everything(plan_id, shown, View(), base_url, complete=True),
    )


def part(plan_id: str, shown: ShownPlan, name: str, view: View) -> HTMLResponse:
    """The timeline or the memory over time by itself."""
    context = _everything(plan_id, shown, view, "")
    return render.page(f"parts/{name}.html", **context)


def picture(shown: ShownPlan, name: str, view: View, kind: str) -> bytes | None:
    """A picture as an SVG or PNG file; None if there is none of that name."""
    try:
        drawing = draw(name, shown, view)
    except KeyError:
        return None
    svg = drawing.standalone(shown.title)
    return png(svg) if kind == "png" else svg.encode()


def _everything(
    plan_id: str, shown: ShownPlan, view: View, base_url: str, *, complete: bool = False
) -> dict[str, Any]:
    return {
        "plan_id": plan_id,
        "shown": shown,
        "plan": shown.plan,
        "interactive": not complete,
        "base_url": base_url,
        "breakdown_lines": LINES,
        "memory_parts": [
            part
            for part in PARTS
            if any(getattr(stage.memory, part[0]) > 0 for stage in shown.plan.stages)
        ],
        "layout_fates": parts(shown.plan.solver) if shown.plan.solver else [],
        "timeline": TimelinePart(shown, view),
        "memory": MemoryPart(shown, view),
        "pictures": Pictures(shown, view),
    }
