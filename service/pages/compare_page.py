"""Plans side by side."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.responses import HTMLResponse

from service.pages import render
from service.pages.comparison import compare
from service.pages.make_page import Recent
from service.pages.pictures.svg import Drawing
from service.pages.pictures.timeline import overview
from service.pages.shown import ShownPlan


def page(plans: Mapping[str, ShownPlan], missing: list[str], recent: list[Recent]) -> HTMLResponse:
    """The comparison of these plans; with fewer than two, recent plans to choose from."""
    strips: dict[str, Drawing] = {
        name: overview(shown.replay) for name, shown in plans.items() if shown.has_stages
    }
    return render.page(
        "compare.html",
        plans=plans,
        missing=missing,
        groups=compare(list(plans.values())) if len(plans) > 1 else [],
        strips=strips,
        legend=list(dict.fromkeys(part for strip in strips.values() for part in strip.legend)),
        recent=[plan for plan in recent if plan.status == "succeeded"],
    )
