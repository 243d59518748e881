"""The layouts that did not win, beside the plan: how much slower each is, or is at least."""

from __future__ import annotations

from service.console.layouts import layout_in_short
from service.console.quantities import duration, percent
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, dot, n, ticks, time_unit
from solver.plan import Alternative, LayoutAnswer

_ROW, _TOP, _RIGHT = 24.0, 26.0, 70.0
_RADIUS = 5.0


def alternatives(
    others: list[Alternative], chosen: LayoutAnswer, ours: float, width: float = WIDTH
) -> Drawing:
    """A row per layout, best first. A dot is its best plan; an open arrow is only a proved bound.

    The axis does not begin at zero: it shows differences.
    """
    beside = width > NARROW
    left, row = (340.0, _ROW) if beside else (12.0, 40.0)
    bottom = _TOP + (len(others) + 1) * row
    drawing = Drawing(
        "Layouts that did not win",
        f"This plan takes {duration(ours)}; the nearest other layout takes "
        f"{percent(min(other.slower for other in others))} more, or at least that.",
        height=bottom + 6,
        width=width,
        legend=[
            ("ours", "This plan"),
            ("solved", "Dot: its best plan"),
            ("only-bound", "Open arrow: at least; its bound alone decided against it"),
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
        y = _TOP + position * row + row - 12
        seconds = ours if other is None else _seconds(other)
        name = layout_in_short(chosen if other is None else other.layout, chosen)
        strong = " strong" if other is None else ""
        if beside:
            drawing.text(left - 12, y + 4, name, f"end small{strong}")
        else:
            drawing.text(left, y - 10, name, f"small{strong}")
        drawing.line(x(ours), y, x(seconds), y, "axis")
        if other is None or other.iteration_seconds is not None:
            drawing.path(dot(x(seconds), y, _RADIUS), "ours" if other is None else "solved")
        else:
            drawing.path(_arrow(x(seconds), y), "only-bound")
        said = f"this plan: {duration(ours)}" if other is None else f"+{percent(other.slower)}"
        drawing.text(x(seconds) + 12, y + 4, said, "small")
    return drawing


def _seconds(other: Alternative) -> float:
    exact = other.iteration_seconds
    return other.lower_bound_seconds if exact is None else exact


def _arrow(x: float, y: float) -> str:
    """A triangle whose base is at the bound: the plan itself is somewhere to its right."""
    return f"M{n(x)} {n(y - _RADIUS)}v{n(2 * _RADIUS)}l{n(1.6 * _RADIUS)} -{n(_RADIUS)}z"
