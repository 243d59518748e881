"""The plan beside what other methods would do on the same costs."""

from __future__ import annotations

from dataclasses import dataclass

from service.console.quantities import duration, size
from service.pages.pictures.svg import NARROW, WIDTH, Drawing
from solver.plan import Baseline

_RIGHT, _ROW = 300.0, 26.0


@dataclass(frozen=True)
class _Bar:
    name: str
    seconds: float
    style: str
    remark: str


def baselines(others: dict[str, Baseline], ours: float, width: float = WIDTH) -> Drawing:
    """Bars of iteration time; methods that do not fit are drawn hollow."""
    known = [(name, other) for name, other in others.items() if other.iteration_seconds is not None]
    bars = [
        _Bar(name, seconds, "theirs" if other.fits else "misfit", _remark(other, ours))
        for name, other in known
        if (seconds := other.iteration_seconds) is not None
    ]
    bars = [_Bar("this plan", ours, "ours", ""), *sorted(bars, key=lambda bar: bar.seconds)]
    beside = width > NARROW
    row = _ROW if beside else 40.0
    drawing = Drawing(
        "Iteration time beside other methods",
        f"This plan takes {duration(ours)}.",
        height=len(bars) * row + 4,
        width=width,
        legend=[
            ("ours", "This plan"),
            ("theirs", "Fits"),
            ("misfit", "Does not fit in memory"),
        ],
    )
    left = 150.0 if beside else 0.0
    scale = (width - left - (_RIGHT if beside else 0.0)) / max(bar.seconds for bar in bars)
    for position, bar in enumerate(bars):
        (_beside if beside else _below)(drawing, bar, position * row + 3, left, scale)
    drawing.line(left + ours * scale, 0, left + ours * scale, len(bars) * row, "axis")
    for position, bar in enumerate(bars):
        said = f"{duration(bar.seconds)}{bar.remark}"
        y = position * row + 3
        if beside:
            drawing.text(left + bar.seconds * scale + 8, y + 15, said, "small halo")
        else:
            strong = " strong" if bar.style == "ours" else ""
            drawing.text(left, y + 12, f"{bar.name}: {said}", f"small halo{strong}")
    return drawing


def _beside(drawing: Drawing, bar: _Bar, y: float, left: float, scale: float) -> None:
    """The name before the bar; there is room for its time after it."""
    drawing.text(left - 10, y + 15, bar.name, "end strong" if bar.style == "ours" else "end")
    drawing.rectangle(left, y, bar.seconds * scale, _ROW - 6, bar.style)


def _below(drawing: Drawing, bar: _Bar, y: float, left: float, scale: float) -> None:
    """There is room for name and time above the bar."""
    drawing.rectangle(left, y + 17, bar.seconds * scale, 15, bar.style)


def _remark(other: Baseline, ours: float) -> str:
    slower = (other.iteration_seconds or ours) / ours - 1.0
    change = "" if abs(slower) < 5e-4 else f" ({slower:+.1%})".replace("-", "−")
    if other.fits:
        return change
    needs = f": needs {size(other.peak_memory_bytes)}" if other.peak_memory_bytes else ""
    return f"{change}, does not fit{needs}"
