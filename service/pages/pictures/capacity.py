"""What a job is worth on every allocation: throughput against nodes, a line per kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.console.quantities import duration
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, cross, dot, n, ticks
from solver.capacity.documents import Curve, Point

_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 30.0, 30.0, 42.0
_HEIGHT, _HEIGHT_NARROW = 320.0, 260.0
_ABOVE = 1.08
_COLOURS, _DASHES = 4, 3
_MOST_DOTS = 240
_RADIUS = 3.6
_LABEL = 100.0


def capacity(curves: Sequence[Curve], width: float = WIDTH) -> Drawing:
    """The curves of a job: nodes to the right, sequences a second upwards, both from zero."""
    height = _HEIGHT if width > NARROW else _HEIGHT_NARROW
    drawing = Drawing(
        "Throughput against nodes",
        " ".join(_said(curve) for curve in curves),
        height=height,
        width=width,
        legend=_legend(curves),
    )
    points = [point for curve in curves for point in curve.points]
    plot = _Plot(
        width,
        height - _BOTTOM,
        max((point.nodes for point in points), default=1),
        max((_rate(point) for point in points), default=0.0) or 1.0,
    )
    _axes(drawing, plot)
    for position, curve in enumerate(curves):
        _line(drawing, plot, curve, position)
        _dots(drawing, plot, curve, position)
    for position, curve in enumerate(curves):
        _knee(drawing, plot, curve, position)
    return drawing


def name(curve: Curve) -> str:
    """What a curve is called beside others."""
    place = "" if curve.placement == "any" else f", {curve.placement.replace('-', ' ')}"
    return f"{curve.device}{place}"


@dataclass(frozen=True)
class _Plot:
    """Where a point of a curve lies."""

    width: float
    bottom: float
    nodes: int
    rate: float

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    def x(self, nodes: float) -> float:
        return _LEFT + nodes / (1.02 * self.nodes) * (self.right - _LEFT)

    def y(self, rate: float) -> float:
        return self.bottom - rate / (_ABOVE * self.rate) * (self.bottom - _TOP)


def _axes(drawing: Drawing, plot: _Plot) -> None:
    for rate in ticks(0.0, _ABOVE * plot.rate, 6):
        drawing.line(_LEFT, plot.y(rate), plot.right, plot.y(rate), "grid")
        drawing.text(_LEFT - 8, plot.y(rate) + 4, f"{rate:,.10g}", "end small")
    for nodes in ticks(0.0, plot.nodes, 12 if plot.width > NARROW else 6):
        if nodes == int(nodes):
            x = plot.x(nodes)
            drawing.line(x, plot.bottom, x, plot.bottom + 4, "axis")
            drawing.text(x, plot.bottom + 17, f"{nodes:,.0f}", "middle small")
    drawing.line(_LEFT, plot.bottom, plot.right, plot.bottom, "axis")
    drawing.text(0, 14, "Sequences a second", "small muted")
    drawing.text(plot.right, plot.bottom + 34, "Nodes given", "end small muted")


def _line(drawing: Drawing, plot: _Plot, curve: Curve, position: int) -> None:
    places = [
        f"{n(plot.x(point.nodes))} {n(plot.y(_rate(point)))}"
        for point in curve.points
        if point.feasible
    ]
    if places:
        drawing.path(f"M{'L'.join(places)}", f"curve {_series(position)}")


def _dots(drawing: Drawing, plot: _Plot, curve: Curve, position: int) -> None:
    """Full where a size is useful, hollow where nodes are wasted, a cross where nothing fits."""
    crowded = len(curve.points) > _MOST_DOTS
    unfit = []
    for point in curve.points:
        x, y = plot.x(point.nodes), plot.y(_rate(point))
        if not point.feasible:
            unfit.append(cross(x, y))
        elif point.useful:
            drawing.path(dot(x, y, _RADIUS), f"useful {_series(position)}", _tip(point))
        elif not crowded:
            drawing.path(dot(x, y, _RADIUS), f"wasteful {_series(position)}", _tip(point))
    drawing.path("".join(unfit), "nothing-fits")


def _knee(drawing: Drawing, plot: _Plot, curve: Curve, position: int) -> None:
    for point in curve.points:
        if point.nodes == curve.knee:
            x, y = plot.x(point.nodes), plot.y(_rate(point))
            drawing.path(dot(x, y, 2.2 * _RADIUS), f"knee {_series(position)}")
            left = x + _LABEL > plot.width
            words = f"knee: {_nodes(point.nodes)}"
            drawing.text(x + (-8 if left else 10), y + 20, words, f"small{' end' if left else ''}")


def _series(position: int) -> str:
    """Style of the curve at a position; colours come again with other dashes."""
    return f"series{position % _COLOURS} dashes{position // _COLOURS % _DASHES}"


def _legend(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    points = [point for curve in curves for point in curve.points]
    found = [(f"curve {_series(i)}", name(curve)) for i, curve in enumerate(curves)]
    if any(point.useful for point in points):
        found.append(("useful series0", "Faster than every smaller size"))
    if any(point.feasible and not point.useful for point in points):
        found.append(("wasteful series0", "No faster than a smaller size: nodes wasted"))
    if any(not point.feasible for point in points):
        found.append(("nothing-fits", "Nothing fits"))
    if any(curve.knee is not None for curve in curves):
        found.append(("knee series0", "Knee: where the curve bends most"))
    return found


def _said(curve: Curve) -> str:
    if curve.smallest_feasible is None:
        return f"{name(curve)}: nothing fits."
    best = max(curve.points, key=_rate)
    knee = "" if curve.knee is None else f", with the knee at {_nodes(curve.knee)}"
    return (
        f"{name(curve)}: from {_nodes(curve.smallest_feasible)} on something fits; at most"
        f" {_rate(best):,.3g} sequences a second on {_nodes(best.nodes)}{knee}."
    )


def _tip(point: Point) -> str:
    seconds = duration(point.iteration_seconds) if point.iteration_seconds else ""
    said = f"{_nodes(point.nodes)}: {_rate(point):,.3g} sequences a second, iteration {seconds}"
    return said if point.useful else f"{said}; {_nodes(point.uses_nodes or 0)} do as well"


def _rate(point: Point) -> float:
    return point.samples_per_second or 0.0


def _nodes(count: int) -> str:
    return f"{count:,} {'node' if count == 1 else 'nodes'}"
