"""How near a calibration comes to the runs that it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from service.console.quantities import percent
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, ticks
from solver.calibrations import Band, Residual

_ROW, _LEFT, _RIGHT = 40.0, 220.0, 60.0
_LEGEND = [("ours", "Runs that the fit saw"), ("theirs", "The same, left out of the fit")]


def residuals(groups: Sequence[Residual], width: float = WIDTH) -> Drawing:
    """Two bars of error for every group: by the fit, and by a fit without the group."""
    beside = width > NARROW
    row = _ROW if beside else _ROW + 20.0
    left = _LEFT if beside else 0.0
    drawing = Drawing(
        "Error by group of runs",
        f"{len(groups)} groups.",
        height=len(groups) * row,
        width=width,
        legend=_LEGEND,
    )
    most = max(max(group.mean_absolute, group.left_out) for group in groups)
    scale = (width - left - _RIGHT) / max(most, 1e-6)
    for number, group in enumerate(groups):
        y = number * row + (4.0 if beside else 20.0)
        runs = f"{group.runs:,} run{'' if group.runs == 1 else 's'}"
        name = f"{_short(group.group)}, {runs}"
        if beside:
            drawing.text(left - 10, y + 19, name, "end")
        else:
            drawing.text(0, y - 5, name)
        for style, error, top in (
            ("ours", group.mean_absolute, y),
            ("theirs", group.left_out, y + 16),
        ):
            drawing.rectangle(left, top, error * scale, 14, style)
            drawing.text(left + error * scale + 6, top + 11, percent(error), "small")
    return drawing


def band(found: Band, width: float = WIDTH) -> Drawing:
    """Where measurements lie around a prediction."""
    low, high = found.low - 1.0, found.high - 1.0
    reach = 1.25 * max(abs(low), abs(high), 1e-3)
    scale = width / (2.0 * reach)
    said = f"{found.share:.0%} of measured iterations lie between {low:+.1%} and {high:+.1%}."
    drawing = Drawing(
        "Measured over predicted time",
        said.replace("-", "−"),
        height=64,
        width=width,
        legend=[("forward", f"Where {found.share:.0%} of measurements lie")],
    )
    drawing.rectangle((low + reach) * scale, 6, (high - low) * scale, 26, "forward")
    drawing.line(reach * scale, 0, reach * scale, 38, "axis")
    drawing.text(reach * scale, 54, "as predicted", "middle small strong")
    for tick in ticks(-reach, reach, 8 if width > NARROW else 4):
        x = (tick + reach) * scale
        if abs(x - reach * scale) > 60 and 20 < x < width - 20:
            drawing.line(x, 34, x, 38, "axis")
            drawing.text(x, 54, f"{tick:+.0%}".replace("-", "−"), "middle small")
    return drawing


def _short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
