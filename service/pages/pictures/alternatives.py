"""The layouts that did not win, beside the plan: how much slower each is, or is at least."""

from __future__ import annotations

from service.console.layouts import layout_in_short
from service.console.quantities import duration, percent
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, arrow, dot, ticks, time_unit
from solver.plan import Alternative, LayoutAnswer

_ROW, _TOP, _RIGHT = 24.0, 26.0, 70.0
_LINE = 13.0
_MOST_LETTERS = 56
_RADIUS = 5.0
_SAME = 5e-6


def alternatives(
    others: list[Alternative], chosen: LayoutAnswer, ours: float, width: float = WIDTH
) -> Drawing:
    """A row per layout, best first. A dot is its best plan; an open arrow is only a proved bound.

    The axis does not begin at zero: it shows differences.
    """
    beside = width > NARROW
    names = [_lines(layout_in_short(layout, chosen)) for layout in _layouts(others, chosen)]
    lines = max(len(name) for name in names)
    left, row = (360.0, _ROW) if beside else (12.0, 40.0)
    row += (lines - 1) * _LINE
    bottom = _TOP + (len(others) + 1) * row
    drawing = Drawing(
        "Layouts that did not win",
        f"This plan takes {duration(ours)}; the nearest other layout takes "
        f"{percent(min(other.slower for other in others))} more, or at least that.",
        height=bottom + 6,
        width=width,
        legend=[
            ("solved", "Its best plan"),
            ("only-bound", "At least: its bound alone decided against it"),
        ],
    )
    slowest = max(ours, *(_seconds(other) for other in others))
    span = max(slowest - ours, 1e-3 * ours)
    low, high = ours - 0.06 * span, ours + 1.04 * span

    def x(seconds: float) -> float:
        return left + (seconds - low) / (high - low) * (width - left - _RIGHT)

    unit = time_unit(high)
    for moment in ticks(low, high, 6 if beside else 3):
        drawing.line(x(moment), _TOP - 6, x(moment), bottom, "grid")
        drawing.text(x(moment), _TOP - 11, f"{unit.label(moment)} {unit.name}", "middle small")
    drawing.line(x(ours), _TOP - 6, x(ours), bottom, "axis")
    for position, other in enumerate([None, *others]):
        y = _TOP + position * row + (row / 2 if beside else row - 12)
        seconds = ours if other is None else _seconds(other)
        strong = " strong" if other is None else ""
        name = names[position]
        first = y + 4 - (len(name) - 1) * _LINE / 2 if beside else y + 3 - len(name) * _LINE
        for number, line in enumerate(name):
            where = (left - 12, "end small") if beside else (left, "small halo")
            drawing.text(where[0], first + number * _LINE, line, f"{where[1]}{strong}")
        drawing.line(x(ours), y, x(seconds), y, "axis")
        if other is None or other.iteration_seconds is not None:
            drawing.path(dot(x(seconds), y, _RADIUS), "ours" if other is None else "solved")
        else:
            drawing.path(arrow(x(seconds), y, _RADIUS), "only-bound")
        drawing.text(x(seconds) + 12, y + 4, _said(other, ours), "small halo")
    return drawing


def _said(other: Alternative | None, ours: float) -> str:
    if other is None:
        return f"this plan: {duration(ours)}"
    return "may be as fast" if other.slower < _SAME else f"+{percent(other.slower)}"


def _layouts(others: list[Alternative], chosen: LayoutAnswer) -> list[LayoutAnswer]:
    return [chosen, *(other.layout for other in others)]


def _lines(name: str) -> list[str]:
    """A layout's name in as many lines as it needs, broken at its commas."""
    lines = [""]
    for part in name.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > _MOST_LETTERS:
            lines[-1] += ","
            lines.append("")
        lines[-1] += f", {part}" if lines[-1] else part
    return lines


def _seconds(other: Alternative) -> float:
    exact = other.iteration_seconds
    return other.lower_bound_seconds if exact is None else exact
