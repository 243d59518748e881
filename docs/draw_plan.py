"""Draws a plan: the beginning of its pipeline, stage by stage, beside each device's memory.

    python docs/draw_plan.py REQUEST.json PICTURE.svg

The picture says the plan's iteration time in its description, where a test looks for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from solver.plan import Plan, Stage
from solver.planner import plan
from solver.question import question
from solver.request import PlanRequest
from solver.schedules import StageTimes, Work, make_schedule, schedule_graph, simulate

GIBIBYTE = 2.0**30
SHOWN_BACKWARDS = 7
"""The picture ends with this many backward passes of stage 0."""

WIDTH, MARGIN, ROW, BAR, TOP = 960, 24, 34, 22, 92
TIMELINE = (190, 432)
MEMORY = (652, 190)
RECOMPUTE_RIGHT = WIDTH - MARGIN

STYLE = """
  text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f; }
  .title { font-size: 15px; font-weight: 600; }
  .quiet { fill: #57606a; }
  .small { font-size: 11px; }
  .end { text-anchor: end; }
  .middle { text-anchor: middle; }
  .batch { font-size: 8px; fill: #ffffff; text-anchor: middle; }
  .card { fill: #ffffff; stroke: #d0d7de; }
  .track { fill: #f0f2f4; }
  .forward { fill: #3b6ea5; }
  .backward { fill: #2f8f83; }
  .recompute { fill: #d98200; }
  .states { fill: #7a8794; }
  .kept { fill: #3b6ea5; }
  .reserved { fill: #b9c2cb; }
  .limit { stroke: #b3261e; stroke-width: 1.5; }
  .axis { stroke: #8c959f; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .quiet { fill: #9aa5b1; }
    .batch { fill: #0d1117; }
    .card { fill: #0d1117; stroke: #30363d; }
    .track { fill: #1b222b; }
    .forward, .kept { fill: #6aa5e0; }
    .backward { fill: #55bfae; }
    .recompute { fill: #f0a93b; }
    .states { fill: #8b98a5; }
    .reserved { fill: #4a5561; }
    .limit { stroke: #ff7b72; }
    .axis { stroke: #6e7681; }
  }
"""


def picture(request: PlanRequest, found: Plan) -> str:
    """The plan as a standalone SVG."""
    assert found.iteration_seconds is not None
    height = TOP + ROW * len(found.stages) + 72
    title = f"{request.model.name} on {_devices(request)}"
    said = (
        f"{title}: one iteration takes {found.iteration_seconds:.3f} s; its beginning on every "
        "pipeline stage, and the memory of a device of every stage"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(said)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(MARGIN, 32, title, "title"),
        *_timeline(request, found),
        *_memory(found),
        *_legend(height - 22),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _devices(request: PlanRequest) -> str:
    nodes, each = request.cluster.nodes or 1, request.cluster.devices_per_node or 1
    return f"{nodes * each} x {request.cluster.device}"


def _timeline(request: PlanRequest, found: Plan) -> Iterator[str]:
    left, width = TIMELINE
    tasks = list(_tasks(request, found))
    last = _last_shown(tasks)
    span = next(end for work, stage, m, _, end in tasks if (work, stage, m) == last)
    for stage in found.stages:
        y = TOP + ROW * stage.index
        yield _text(MARGIN, y + 15, str(stage.index))
        yield _text(MARGIN + 18, y + 15, _content(stage), "quiet")
        yield _box(left, y, width, "track")
    for work, stage_index, micro_batch, start, end in tasks:
        if start >= span:
            continue
        y = TOP + ROW * stage_index
        scale = width / span
        x, right = left + start * scale, left + min(end, span) * scale
        if work == Work.FORWARD:
            yield _box(x, y, right - x, "forward")
        else:
            again = found.stages[stage_index].recompute_seconds * scale
            again = min(again, right - x)
            if again > 0:
                yield _box(x, y, again, "recompute")
            yield _box(x + again, y, right - x - again, "backward")
        if right - x > 9:
            yield _text((x + right) / 2, y + 14, str(micro_batch + 1), "batch")
    yield _text(left, TOP - 14, "Start of the iteration, micro-batches numbered", "quiet small")
    below = TOP + ROW * len(found.stages) + 6
    yield _text(left, below + 8, "0 s", "quiet small")
    whole = f"{span:.1f} s of {found.iteration_seconds:.1f} s"
    yield _text(left + width, below + 8, whole, "quiet small end")


def _last_shown(tasks: list[tuple[int, int, int, float, float]]) -> tuple[int, int, int]:
    batches = 1 + max(micro_batch for _, _, micro_batch, _, _ in tasks)
    return (int(Work.BACKWARD), 0, min(SHOWN_BACKWARDS, batches) - 1)


def _tasks(request: PlanRequest, found: Plan) -> Iterator[tuple[int, int, int, float, float]]:
    """(work, stage, micro-batch, start, end) of every task, by the exact simulator."""
    assert found.layout is not None
    asked = question(
        request.model_copy(update={"layout": request.layout.model_copy(update=_fixed(found))})
    )
    costs = asked.costs(asked.layouts[0])
    schedule = make_schedule(
        found.layout.schedule, found.layout.pipeline_parallel, costs.micro_batches
    )
    times = StageTimes.of(
        forward=[stage.forward_seconds for stage in found.stages],
        backward=[stage.backward_seconds for stage in found.stages],
        send=costs.send_seconds,
    )
    simulation = simulate(schedule_graph(schedule), times)
    seconds = np.concatenate([times.forward, times.backward], axis=1)[0]
    graph = simulation.graph
    for node, (work, stage, micro_batch) in enumerate(graph.tasks.tolist()):
        end = float(simulation.ends[node, 0])
        yield work, stage, micro_batch, end - float(seconds[graph.duration[node]]), end


def _fixed(found: Plan) -> dict[str, object]:
    assert found.layout is not None
    names = ("tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch_size")
    return {name: getattr(found.layout, name) for name in names}


def _memory(found: Plan) -> Iterator[str]:
    left, width = MEMORY
    limit = found.memory_limit_bytes or 1.0
    scale = width / (limit * 1.04)
    yield _text(left, TOP - 14, "Memory of a device", "quiet small")
    yield _text(RECOMPUTE_RIGHT, TOP - 30, "recompute per", "quiet small end")
    yield _text(RECOMPUTE_RIGHT, TOP - 14, "micro-batch", "quiet small end")
    for stage in found.stages:
        y, x = TOP + ROW * stage.index, float(left)
        memory = stage.memory
        yield _box(left, y, width, "track")
        for size, kind in (
            (memory.weights + memory.gradients + memory.optimizer, "states"),
            (memory.activations, "kept"),
            (memory.recompute + memory.working, "recompute"),
            (memory.reserved, "reserved"),
        ):
            yield _box(x, y, size * scale, kind)
            x += size * scale
        again = stage.recompute_seconds * 1e3
        shown = f"{again:.1f} ms" if again else "none"
        yield _text(RECOMPUTE_RIGHT, y + 15, shown, "end" if again else "end quiet")
    at, bottom = left + limit * scale, TOP + ROW * len(found.stages)
    yield f'<path class="limit" d="M{at:.1f} {TOP - 6} V{bottom - 6}"/>'
    yield _text(left, bottom + 14, "0", "quiet small")
    yield _text(at, bottom + 14, f"limit {limit / GIBIBYTE:.1f} GiB", "quiet small end")


def _legend(y: float) -> Iterator[str]:
    x = float(TIMELINE[0])
    for kind, words in (
        ("forward", "forward"),
        ("recompute", "recompute"),
        ("backward", "backward"),
    ):
        yield _key(x, y, kind, words)
        x += 30 + 7 * len(words)
    x = float(MEMORY[0] - 172)
    for kind, words in (
        ("states", "weights, gradients, optimizer"),
        ("kept", "kept tensors"),
        ("recompute", "buffers"),
        ("reserved", "reserve"),
    ):
        yield _key(x, y, kind, words)
        x += 26 + 6.1 * len(words)


def _key(x: float, y: float, kind: str, words: str) -> str:
    square = f'<rect class="{kind}" x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" rx="2"/>'
    return square + _text(x + 15, y, words, "small")


def _content(stage: Stage) -> str:
    named = {"layer": "layers"}
    words = [
        f"{count} {named.get(name, name)}" if count > 1 else name for name, count in stage.blocks
    ]
    return " + ".join(words)


def _box(x: float, y: float, width: float, kind: str) -> str:
    inset = 0.5 if width > 3 and kind != "track" else 0.0
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{max(width - inset, 0):.1f}" '
        f'height="{BAR}"/>'
    )


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def main(request_file: str, picture_file: str) -> None:
    """Plan a request and write its picture."""
    request = PlanRequest.model_validate(json.loads(Path(request_file).read_text()))
    Path(picture_file).write_text(picture(request, plan(request)))


if __name__ == "__main__":
    main(*sys.argv[1:])
