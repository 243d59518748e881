"""What one device holds through the iteration.

A micro-batch's activations are held from the start of its forward to the end of its backward; a
backward holds what it rebuilds and its temporaries beside them.
"""

from __future__ import annotations

import numpy as np

from service.console.quantities import duration, size
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, n, size_unit, ticks, time_unit
from service.replay import Floats, Kind, Replay
from solver.plan import Stage

_LEFT, _RIGHT, _TOP, _HEIGHT, _BOTTOM = 74.0, 12.0, 24.0, 180.0, 26.0
_COLUMNS, _FEW_COLUMNS = 700, 300


def memory_over_time(
    replay: Replay, stages: list[Stage], device: int, limit: float, width: float = WIDTH
) -> Drawing:
    """The picture for one device."""
    number = _COLUMNS if width > NARROW else _FEW_COLUMNS
    moments, held, extra = _held(replay, stages, device, number)
    mine = [stage for stage in stages if stage.index == device]
    name = "device" if replay.virtual_stages > 1 else "stage"
    memory = mine[0].memory
    states = memory.weights + memory.gradients + memory.optimizer
    reserve = memory.reserved + memory.staging
    base = states + reserve
    held_aside = "Reserve, room for what is on its way" if memory.staging else "Reserve"
    most = max(limit, base + float((held + extra).max(initial=0.0))) * 1.05
    bottom = _TOP + _HEIGHT
    drawing = Drawing(
        f"Memory of {name} {device} over the iteration",
        f"At most {size(mine[0].peak_memory_bytes)} of {size(limit)}.",
        height=bottom + _BOTTOM,
        width=width,
        legend=[
            *([("reserved", held_aside)] if reserve else []),
            ("states", "Weights, gradients, optimizer state"),
            ("activations", "Kept activations"),
            *([("rebuilt", "Recomputed tensors and temporaries")] if extra.any() else []),
            ("limit", "Limit"),
        ],
    )
    across = (width - _LEFT - _RIGHT) / replay.makespan
    up = _HEIGHT / most

    def y(count: float) -> float:
        return bottom - count * up

    amounts = size_unit(most)
    for tick in amounts.ticks(most, 5):
        drawing.line(_LEFT, y(tick), width - _RIGHT, y(tick), "grid")
        drawing.text(_LEFT - 8, y(tick) + 4, amounts.label(tick), "end small")
    unit = time_unit(replay.makespan)
    for moment in ticks(0, replay.makespan, 10 if width > NARROW else 4):
        x = _LEFT + moment * across
        anchor = "end" if x > width - 30 else "middle"
        drawing.text(x, bottom + 18, f"{unit.label(moment)} {unit.name}", f"{anchor} small")
    right = width - _RIGHT - _LEFT
    drawing.rectangle(
        _LEFT,
        y(reserve),
        right,
        reserve * up,
        "reserved",
        f"{held_aside}: {size(reserve)}",
    )
    drawing.rectangle(
        _LEFT,
        y(base),
        right,
        states * up,
        "states",
        f"Weights, gradients, optimizer state: {size(states)}",
    )
    places = np.asarray(_LEFT + moments * across)
    drawing.path(_area(places, np.asarray(y(base) - held * up), y(base)), "activations")
    drawing.path(
        _area(places, np.asarray(y(base) - (held + extra) * up), np.asarray(y(base) - held * up)),
        "rebuilt",
    )
    drawing.line(_LEFT, y(limit), width - _RIGHT, y(limit), "limit")
    drawing.text(width - _RIGHT, y(limit) - 5, f"limit {size(limit)}", "end small limit-text halo")
    drawing.text(
        _LEFT, 12, f"{name.capitalize()} {device}, {duration(replay.makespan)}", "small muted"
    )
    return drawing


def _held(
    replay: Replay, stages: list[Stage], device: int, columns: int
) -> tuple[Floats, Floats, Floats]:
    """Moments, activations from each on, and the most that a backward adds there.

    Each of the ``columns`` shows the most that is held within it.
    """
    bars = replay.bars.where((replay.bars.device == device) & (replay.bars.micro_batch >= 0))
    kept = np.zeros(replay.devices * replay.virtual_stages)
    waiting, buffer = np.zeros_like(kept), np.zeros_like(kept)
    for position, stage in enumerate(stages):
        kept[position] = stage.kept_bytes
        waiting[position] = stage.waiting_bytes
        buffer[position] = stage.memory.recompute + stage.memory.working
    forward = bars.kind == Kind.FORWARD
    backward = bars.kind == Kind.BACKWARD
    weight = bars.kind == Kind.WEIGHT
    # What ends when something else begins is let go first.
    soon = 1e-9 * replay.makespan
    moments = np.concatenate(
        [bars.start[forward], bars.end[backward] - soon, bars.end[weight] - soon]
    )
    change = np.concatenate(
        [
            kept[bars.stage[forward]],
            (waiting - kept)[bars.stage[backward]],
            -waiting[bars.stage[weight]],
        ]
    )
    order = np.argsort(moments, kind="stable")
    moments, held = moments[order], np.cumsum(change[order])
    edges = np.linspace(0.0, replay.makespan, columns + 1)
    during = (bars.kind == Kind.BACKWARD) | (bars.kind == Kind.RECOMPUTE)
    return (
        edges,
        _most(edges, moments, held),
        _extra(edges, bars.start[during], bars.end[during], buffer[bars.stage[during]]),
    )


def _most(edges: Floats, moments: Floats, held: Floats) -> Floats:
    """The largest value of a step function within each column; the last is what is left."""
    before = np.concatenate([[0.0], held])[np.searchsorted(moments, edges, side="right")]
    most = before.copy()
    column = np.clip(np.searchsorted(edges, moments, side="right") - 1, 0, len(edges) - 1)
    np.maximum.at(most, column, held)
    return np.asarray(np.maximum(most, 0.0))


def _extra(edges: Floats, start: Floats, end: Floats, buffer: Floats) -> Floats:
    extra = np.zeros(len(edges))
    first = np.searchsorted(edges, start, side="right") - 1
    last = np.maximum(np.searchsorted(edges, end, side="left") - 1, first)
    for low, high, count in zip(first, last, buffer, strict=True):
        extra[low : high + 1] = np.maximum(extra[low : high + 1], count)
    return extra


def _area(x: Floats, top: Floats, bottom: Floats | float) -> str:
    """The region between two step functions of the same columns."""
    there = _corners(x, top)
    back = reversed(_corners(x, np.broadcast_to(bottom, x.shape)))
    return "M" + "L".join(f"{n(a)} {n(b)}" for a, b in [*there, *back]) + "z"


def _corners(x: Floats, y: Floats) -> list[tuple[float, float]]:
    corners = [(float(x[0]), float(y[0]))]
    for i in range(1, len(x)):
        if abs(y[i] - y[i - 1]) > 0.04:
            corners += [(float(x[i]), float(y[i - 1])), (float(x[i]), float(y[i]))]
    corners.append((float(x[-1]), float(y[-1])))
    return corners
