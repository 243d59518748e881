"""The pipeline timeline: what every device does when, with the critical path drawn.

Few passes are drawn one by one, with their numbers where there is room. Many are drawn as shares of
short spans of time, a whole number of steady-state cycles each, so that the steady state is flat.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from service.console.quantities import duration
from service.pages.pictures.svg import WIDTH, Drawing, box, n, ticks, time_unit
from service.replay import Bars, Floats, Index, Kind, Replay

MOST_BARS = 6000
"""More bars than this are drawn as shares."""

_TIPS = 1200  # beyond, bars are too thin to point at
_LEFT, _RIGHT, _TOP, _BOTTOM = 68.0, 12.0, 26.0, 8.0
_LEAST_BAR = 2.0
_NUMBERED_ROW = 14.0
_LEGIBLE_CYCLE = 30.0
_FEWEST_CYCLES = 8.0
_PATH_STEP = 6.0
_STRIP = 0.25
_WORDS = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.RECOMPUTE: "recompute",
    Kind.COMMUNICATION: "communication",
    Kind.OPTIMIZER: "optimizer step",
    Kind.WEIGHT: "weight gradients",
}
_NAMES = {
    Kind.FORWARD: "Forward",
    Kind.BACKWARD: "Backward",
    Kind.WEIGHT: "Gradients of weights",
    Kind.RECOMPUTE: "Recompute, drawn at the start of its backward",
    Kind.COMMUNICATION: "Weights gathered, gradients reduced",
    Kind.OPTIMIZER: "Optimizer step",
}
_STYLES = {kind: kind.name.lower() for kind in Kind}


@dataclass(frozen=True)
class Window:
    """The span of the iteration that is drawn, in seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True)
class Rows:
    """How devices become rows and moments become places."""

    window: Window
    height: float
    gap: float
    top: float = _TOP

    def x(self, moment: float) -> float:
        """The place of a moment."""
        return _LEFT + (moment - self.window.start) * self.scale

    @property
    def scale(self) -> float:
        """Units of length per second."""
        return (WIDTH - _LEFT - _RIGHT) / self.window.seconds

    def y(self, device: int) -> float:
        """The upper edge of a device's row."""
        return self.top + device * (self.height + self.gap)


def whole(replay: Replay) -> Window:
    """The window that shows all."""
    return Window(0.0, replay.makespan)


def first_window(replay: Replay) -> Window:
    """What a reader sees first: all, or where passes would be too thin, the beginning."""
    if replay.makespan <= 0:
        return Window(0.0, 1.0)
    plot = WIDTH - _LEFT - _RIGHT
    cycles = min(plot / _LEGIBLE_CYCLE, replay.micro_batches * MOST_BARS / len(replay.bars))
    end = max(cycles, _FEWEST_CYCLES) * replay.cycle_seconds
    return Window(0.0, end) if end < 0.8 * replay.makespan else whole(replay)


def timeline(replay: Replay, window: Window, *, critical: bool = True) -> Drawing:
    """The picture of one window."""
    height = _row_height(replay.devices)
    rows = Rows(window, height, max(1.0, height / 8))
    one_by_one = drawn_one_by_one(replay, window)
    drawing = Drawing(
        "Pipeline timeline",
        f"{replay.devices} devices, {replay.micro_batches} micro-batches, from "
        f"{duration(window.start)} to {duration(window.end)} of "
        f"{duration(replay.makespan)}.",
        height=rows.y(replay.devices) + _BOTTOM,
        legend=[
            *legend(replay, critical=critical),
            *detail_legend(replay, window),
        ],
    )
    _axis(drawing, rows, replay.devices)
    _devices(drawing, rows, replay)
    bars = replay.bars.within(window.start, window.end)
    drawing.raw(_clip(rows, replay.devices))
    drawing.raw('<g clip-path="url(#plot)">')
    if one_by_one:
        _passes(drawing, rows, bars, replay)
        _hidden(drawing, rows, bars, replay)
    else:
        _shares(drawing, rows, replay)
    if critical:
        _critical_path(drawing, rows, replay, one_by_one)
    drawing.raw("</g>")
    return drawing


def overview(replay: Replay, shown: Window | None = None) -> Drawing:
    """The whole iteration as a narrow strip, the shown window marked on it."""
    height = min(10.0, max(1.5, 120.0 / replay.devices))
    rows = Rows(whole(replay), height, 0.0 if height < 4 else 1.0, top=18.0)
    drawing = Drawing(
        "The whole iteration",
        f"{duration(replay.makespan)} in shares of forward, backward and stall.",
        height=rows.y(replay.devices) + 4.0,
        legend=legend(replay, critical=False),
    )
    unit = time_unit(replay.makespan)
    for moment in ticks(0.0, replay.makespan, 10):
        drawing.text(rows.x(moment), 12, f"{unit.label(moment)} {unit.name}", "middle small")
    full = rows.y(replay.devices) - rows.top - rows.gap
    drawing.rectangle(_LEFT, rows.top, WIDTH - _LEFT - _RIGHT, full, "stall")
    _shares(drawing, rows, replay)
    if shown is not None:
        left, right = rows.x(shown.start), rows.x(shown.end)
        width = max(right - left, 3.0)
        drawing.rectangle(left, rows.top - 2, width, full + 4, "shown")
    return drawing


def legend(replay: Replay, *, critical: bool) -> list[tuple[str, str]]:
    """Style and words of every kind of bar that there is."""
    bars = replay.bars
    there = set(bars.kind[bars.end > bars.start].tolist())
    found = [(_STYLES[kind], words) for kind, words in _NAMES.items() if kind in there]
    found.append(("stall", "Stall, sends included"))
    return [*found, ("critical", "Critical path")] if critical else found


def detail_legend(replay: Replay, window: Window) -> list[tuple[str, str]]:
    """Style and words of what is seen only where passes are drawn one by one."""
    if not drawn_one_by_one(replay, window):
        return []
    found = []
    if replay.virtual_stages > 1:
        found.append(("forward chunk1", "Dimmed: every other chunk of a device"))
    if replay.hidden.any():
        words = "Recompute under communication, along the lower edge of its backward"
        found.append(("recompute", words))
    return found


def drawn_one_by_one(replay: Replay, window: Window) -> bool:
    """Whether each pass is a bar of its own in this window."""
    seen = int(((replay.bars.end > window.start) & (replay.bars.start < window.end)).sum())
    per_row = seen / replay.devices
    return seen <= MOST_BARS and per_row <= (WIDTH - _LEFT - _RIGHT) / _LEAST_BAR


def has_numbers(replay: Replay) -> bool:
    """Whether rows are high enough to say which micro-batch a pass is of."""
    return _row_height(replay.devices) >= _NUMBERED_ROW


def _row_height(devices: int) -> float:
    return 28.0 if devices <= 4 else 22.0 if devices <= 8 else 16.0 if devices <= 20 else 9.0


def _axis(drawing: Drawing, rows: Rows, devices: int) -> None:
    unit = time_unit(rows.window.end)
    bottom = rows.y(devices)
    for moment in ticks(rows.window.start, rows.window.end, 10):
        x = rows.x(moment)
        drawing.line(x, rows.top - 6, x, bottom, "grid")
        anchor = "end" if x > WIDTH - 30 else "middle"
        drawing.text(x, rows.top - 11, f"{unit.label(moment)} {unit.name}", f"{anchor} small")


def _devices(drawing: Drawing, rows: Rows, replay: Replay) -> None:
    step = 1 if rows.height >= 10 else 2 if rows.height >= 7 else 4
    name = "stage" if replay.virtual_stages == 1 else "device"
    left, right = rows.x(max(rows.window.start, 0.0)), rows.x(min(rows.window.end, replay.makespan))
    background = []
    for device in range(replay.devices):
        y = rows.y(device)
        background.append(box(left, y, right - left, rows.height))
        if device % step == 0:
            middle = y + rows.height / 2 + 4
            drawing.text(_LEFT - 8, middle, f"{name} {device}", "end small")
    drawing.path("".join(background), "stall")


def _clip(rows: Rows, devices: int) -> str:
    height = rows.y(devices) - rows.top
    return (
        f'<clipPath id="plot"><rect x="{n(_LEFT)}" y="{n(rows.top)}"'
        f' width="{n(WIDTH - _LEFT - _RIGHT)}" height="{n(height)}"/></clipPath>'
    )


def _passes(drawing: Drawing, rows: Rows, bars: Bars, replay: Replay) -> None:
    left = np.maximum(_x(rows, bars.start), _LEFT - 2)
    right = np.minimum(_x(rows, bars.end), WIDTH - _RIGHT + 2)
    width = right - left
    gap = np.where(width > 4, 0.6, 0.0)
    styles = np.array([_style(bars, i, replay) for i in range(len(bars))])
    told = len(bars) <= _TIPS
    for style in dict.fromkeys(styles.tolist()):
        mine = np.flatnonzero(styles == style).tolist()
        drawing.boxes(
            style,
            [
                box(left[i], rows.y(int(bars.device[i])), width[i] - gap[i], rows.height)
                for i in mine
            ],
            [_tip(bars, i, replay) for i in mine] if told else None,
        )
    _numbers(drawing, rows, bars, left, width)


def _hidden(drawing: Drawing, rows: Rows, bars: Bars, replay: Replay) -> None:
    """What backwards hide, to scale, at their lower edges and up to their ends."""
    strip = rows.height * _STRIP
    backward = bars.where(bars.kind == Kind.BACKWARD)
    lasts = np.minimum(replay.hidden[backward.stage], backward.end - backward.start)
    left, right = _x(rows, backward.end - lasts), _x(rows, backward.end)
    low = [rows.y(device) + rows.height for device in backward.device.tolist()]
    strips = [
        box(left[i], low[i] - strip, right[i] - left[i], strip) for i in np.flatnonzero(lasts > 0)
    ]
    drawing.path("".join(strips), "recompute")


def _numbers(drawing: Drawing, rows: Rows, bars: Bars, left: Floats, width: Floats) -> None:
    if rows.height < _NUMBERED_ROW:
        return
    numbered = (bars.kind == Kind.FORWARD) | (bars.kind == Kind.BACKWARD)
    roomy = (width >= 15) & (bars.micro_batch >= 0) & numbered
    for i in np.flatnonzero(roomy):
        y = rows.y(int(bars.device[i])) + rows.height / 2 + 4
        on = "on-forward" if bars.kind[i] == Kind.FORWARD else "on-backward"
        x = left[i] + width[i] / 2
        drawing.text(x, y, str(int(bars.micro_batch[i])), f"middle small {on}")


def _x(rows: Rows, moments: Floats) -> Floats:
    return np.asarray(_LEFT + (moments - rows.window.start) * rows.scale)


def _style(bars: Bars, i: int, replay: Replay) -> str:
    style = _STYLES[Kind(int(bars.kind[i]))]
    chunk = int(bars.stage[i]) // replay.devices
    return f"{style} chunk{chunk % 2}" if chunk else style


def _tip(bars: Bars, i: int, replay: Replay) -> str:
    parts = [_WORDS[Kind(int(bars.kind[i]))]]
    if bars.micro_batch[i] >= 0:
        parts.append(f"micro-batch {bars.micro_batch[i]}")
    parts.append(_place(bars, i, replay))
    start, end = float(bars.start[i]), float(bars.end[i])
    parts.append(f"{duration(end - start)}, from {duration(start)}")
    return " · ".join(parts)


def _place(bars: Bars, i: int, replay: Replay) -> str:
    if replay.virtual_stages == 1:
        return f"stage {bars.device[i]}"
    return f"device {bars.device[i]}, chunk {int(bars.stage[i]) // replay.devices}"


def _shares(drawing: Drawing, rows: Rows, replay: Replay) -> None:
    """Each row as a stack of shares of time, forward at the bottom; what is left is stall."""
    cycles = max(1, int(np.ceil(5.0 / (replay.cycle_seconds * rows.scale))))
    span = cycles * replay.cycle_seconds
    first = np.floor(rows.window.start / span) * span
    edges = np.arange(first, min(rows.window.end, replay.makespan) + span, span)
    edges[-1] = min(edges[-1], replay.makespan)
    commands: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for device in range(replay.devices):
        base = np.zeros(len(edges) - 1)
        for kind in Kind:
            if (device, kind) not in replay.lanes:
                continue
            share = _share(*replay.lanes[device, kind], edges)
            top = np.minimum(base + share, 1.0)
            _stack(commands[kind], rows, device, edges, base, top)
            base = top
    for kind, drawn in commands.items():
        drawing.path("".join(drawn), _STYLES[kind])


def _share(start: Floats, end: Floats, edges: Floats) -> Floats:
    """The share of every span between edges that the bars, one after another, take."""
    moments = np.column_stack([start, end]).ravel()
    done = np.cumsum(end - start)
    busy = np.column_stack([done - (end - start), done]).ravel()
    return np.asarray(np.diff(np.interp(edges, moments, busy)) / np.maximum(np.diff(edges), 1e-30))


def _stack(
    commands: list[str], rows: Rows, device: int, edges: Floats, base: Floats, top: Floats
) -> None:
    """Spans of equal share (to a twentieth) as one box."""
    low, high = np.round(base * 20) / 20, np.round(top * 20) / 20
    changes = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
    bounds = [0, *changes.tolist(), len(low)]
    bottom = rows.y(device) + rows.height
    for begin, end in itertools.pairwise(bounds):
        height = (high[begin] - low[begin]) * rows.height
        if height > 0:
            left, right = rows.x(edges[begin]), rows.x(edges[end])
            y = bottom - high[begin] * rows.height
            commands.append(box(left, y, right - left, height))


def _critical_path(drawing: Drawing, rows: Rows, replay: Replay, one_by_one: bool) -> None:
    """A line along the critical passes; among shares it follows the device that it is mostly on."""
    path = replay.critical
    seen = (path.end > rows.window.start) & (path.start < rows.window.end)
    devices, starts, ends = path.device[seen], path.start[seen], path.end[seen]
    if not len(devices):
        return
    if not one_by_one:
        devices, starts, ends = _smoothed(rows, devices, starts, ends)
    edges = np.flatnonzero(np.diff(devices)) + 1
    place = 0.86 if rows.height >= 14 else 0.5
    commands, join = [], "M"
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(devices)], strict=True):
        y = rows.y(int(devices[begin])) + rows.height * place
        left = max(rows.x(float(starts[begin])), _LEFT - 4)
        right = min(rows.x(float(ends[end - 1])), WIDTH)
        commands.append(f"{join}{n(left)} {n(y)}L{n(right)} {n(y)}")
        join = "L"
    drawing.path("".join(commands), "critical-halo")
    drawing.path("".join(commands), "critical")


def _smoothed(
    rows: Rows, devices: Index, starts: Floats, ends: Floats
) -> tuple[Index, Floats, Floats]:
    """The path in steps of a few units of length, each on the median device of its time."""
    low, high = max(starts[0], rows.window.start), min(ends[-1], rows.window.end)
    steps = max(1, int((high - low) * rows.scale / _PATH_STEP))
    edges = np.linspace(low, high, steps + 1)
    moments = np.linspace(low, high, steps * 8, endpoint=False).reshape(steps, 8)
    at = np.clip(np.searchsorted(starts, moments, side="right") - 1, 0, len(devices) - 1)
    return np.sort(devices[at], axis=1)[:, 4], edges[:-1], edges[1:]
