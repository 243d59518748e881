"""The page of a plan, in whatever state it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse

from service.pages import render
from service.pages.drawings import View, draw, stage_of_interest
from service.pages.pictures.breakdown import LINES
from service.pages.pictures.memory import PARTS
from service.pages.pictures.svg import Drawing
from service.pages.pictures.timeline import drawn_one_by_one, whole
from service.pages.shown import ShownPlan, title
from service.problems import Problem
from service.schema_examples import sample
from solver.plan import Plan
from solver.request import PlanRequest


@dataclass(frozen=True)
class Jump:
    """A link to another window of the timeline."""

    name: str
    key: str
    start: float
    end: float

    @property
    def query(self) -> str:
        """The query that asks for it."""
        return urlencode({"from": f"{self.start:.9g}", "to": f"{self.end:.9g}"})


def prepare() -> None:
    """Draw a sample, so that the first reader need not wait for what is slow only once."""
    render.prepare()
    request, plan = sample("request"), sample("plan")
    report("sample", ShownPlan(PlanRequest.model_validate(request), Plan.model_validate(plan)))


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


def answered(plan_id: str, shown: ShownPlan, view: View, base_url: str) -> HTMLResponse:
    """A finished plan; what is seen often is kept."""
    return render.respond(_answered(plan_id, shown, view, base_url))


@lru_cache(maxsize=64)
def _answered(plan_id: str, shown: ShownPlan, view: View, base_url: str) -> str:
    return render.html("plan.html", **_everything(plan_id, shown, view, base_url))


def report(plan_id: str, shown: ShownPlan, base_url: str = "") -> str:
    """The page as one file without scripts, styles inside."""
    sheets = ("pico.min.css", "pictures.css", "stagecut.css")
    return render.html(
        "report.html",
        styles="\n".join(render.static_text(name) for name in sheets),
        **_everything(plan_id, shown, View(), base_url, complete=True),
    )


def part(plan_id: str, shown: ShownPlan, name: str, view: View) -> HTMLResponse:
    """The timeline or the memory over time by itself."""
    context = {"timeline": _timeline, "memory": _memory_over_time}[name](shown, view)
    return render.page(
        f"parts/{name}.html", plan_id=plan_id, shown=shown, interactive=True, **context
    )


def picture(shown: ShownPlan, name: str, view: View) -> str | None:
    """A picture as the text of an SVG file; None if there is none of that name."""
    try:
        return draw(name, shown, view).standalone()
    except KeyError:
        return None


def _everything(
    plan_id: str, shown: ShownPlan, view: View, base_url: str, *, complete: bool = False
) -> dict[str, Any]:
    context: dict[str, Any] = {
        "plan_id": plan_id,
        "shown": shown,
        "plan": shown.plan,
        "interactive": not complete,
        "base_url": base_url,
        "breakdown_lines": LINES,
        "memory_parts": PARTS,
        "drawn_pictures": {},
    }
    if shown.has_stages:
        names = ["memory", "breakdown", "baselines"]
        names += ["tensors"] if shown.plan.block_kinds else []
        context["drawn_pictures"] = {name: draw(name, shown, view) for name in names}
        context |= _timeline(shown, view) | _memory_over_time(shown, view)
    return context


def _timeline(shown: ShownPlan, view: View) -> dict[str, Any]:
    replay = shown.replay
    window = view.window(replay)
    everything = window == whole(replay)
    strip: Drawing | None = None if everything else draw("overview", shown, view)
    kinds = set(replay.bars.kind.tolist())
    return {
        "timeline": draw("timeline", shown, view),
        "overview": strip,
        "window": window,
        "replay": replay,
        "view": view,
        "jumps": _jumps(shown, view),
        "one_by_one": drawn_one_by_one(replay, window),
        "kinds": kinds,
    }


def _memory_over_time(shown: ShownPlan, view: View) -> dict[str, Any]:
    return {
        "memory_over_time": draw("memory-over-time", shown, view),
        "stage": stage_of_interest(shown, view),
        "devices": sorted({stage.index for stage in shown.plan.stages}),
    }


def _jumps(shown: ShownPlan, view: View) -> list[Jump]:
    replay = shown.replay
    window = view.window(replay)
    middle, length, total = (window.start + window.end) / 2, window.seconds, replay.makespan
    first = View().window(replay)

    def at(name: str, key: str, start: float, seconds: float) -> Jump:
        seconds = min(seconds, total)
        start = min(max(start, 0.0), total - seconds)
        return Jump(name, key, start, start + seconds)

    phases = [
        at("Warm-up", "1", 0.0, first.seconds),
        at("Steady state", "2", (total - first.seconds) / 2, first.seconds),
        at("Drain", "3", total - first.seconds, first.seconds),
    ]
    return [
        at("Whole", "0", 0.0, total),
        *(phases if first != whole(replay) else []),
        at("Earlier", "ArrowLeft", window.start - length / 2, length),
        at("Later", "ArrowRight", window.start + length / 2, length),
        at("Zoom in", "+", middle - length / 4, length / 2),
        at("Zoom out", "-", middle - length, length * 2),
    ]
