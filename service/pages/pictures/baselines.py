"""The plan beside what other methods would do on the same costs."""

from __future__ import annotations

from service.console.quantities import duration, size
from service.pages.pictures.svg import WIDTH, Drawing
from solver.plan import Baseline

_LEFT, _RIGHT, _ROW = 150.0, 300.0, 26.0


def baselines(others: dict[str, Baseline], ours: float) -> Drawing:
    """Bars of iteration time; methods that do not fit are drawn hollow."""
    known = {name: other for name, other in others.items() if other.iteration_seconds is not None}
    ranked = sorted(known.items(), key=lambda item: item[1].iteration_seconds or 0.0)
    most = max([ours, *(other.iteration_seconds or 0.0 for other in known.values())])
    drawing = Drawing(
        "Iteration time beside other methods",
        f"This plan takes {duration(ours)}.",
        height=(len(ranked) + 1) * _ROW + 4,
    )
    scale = (WIDTH - _LEFT - _RIGHT) / most
    _bar(drawing, 0, "this plan", ours, "ours", "", scale)
    for position, (name, other) in enumerate(ranked, start=1):
        seconds = other.iteration_seconds or 0.0
        style = "theirs" if other.fits else "misfit"
        _bar(drawing, position, name, seconds, style, _remark(other, ours), scale)
    x = _LEFT + ours * scale
    drawing.line(x, 0, x, (len(ranked) + 1) * _ROW, "axis")
    return drawing


def _bar(
    drawing: Drawing,
    position: int,
    name: str,
    seconds: float,
    style: str,
    remark: str,
    scale: float,
) -> None:
    y = position * _ROW + 3
    drawing.text(_LEFT - 10, y + 15, name, "end" if position else "end strong")
    drawing.rectangle(_LEFT, y, seconds * scale, _ROW - 6, style)
    drawing.text(_LEFT + seconds * scale + 8, y + 15, f"{duration(seconds)}{remark}", "small")


def _remark(other: Baseline, ours: float) -> str:
    slower = (other.iteration_seconds or ours) / ours - 1.0
    change = "" if abs(slower) < 5e-4 else f" ({slower:+.1%})"
    if other.fits:
        return change
    needs = f": needs {size(other.peak_memory_bytes)}" if other.peak_memory_bytes else ""
    return f"{change}, does not fit{needs}"
