"""A calibration as text: how near it comes, and what it changes."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from solver.calibrations import Calibration


def calibration_page(calibration: Calibration) -> RenderableType:
    """The verdict, the residuals by group, and the values."""
    return Group(_verdict(calibration), "", _residuals(calibration), _values(calibration))


def _verdict(calibration: Calibration) -> str:
    runs = f"{calibration.runs} run{'s' if calibration.runs != 1 else ''}"
    lines = [
        f"Calibration {calibration.name}, version {calibration.version}, of {calibration.device}",
        f"Fitted to {runs}: {_percent(calibration.mean_error)} off on average; "
        f"{_percent(calibration.mean_error_left_out)} where the run's own group is left out.",
    ]
    if calibration.band is not None:
        band = calibration.band
        lines.append(
            f"{band.share:.0%} of iterations are to be expected within "
            f"{band.low - 1.0:+.1%} and {band.high - 1.0:+.1%} of a prediction."
        )
    return "\n".join(lines)


def _residuals(calibration: Calibration) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group", overflow="fold")
    for heading in ("runs", "bias", "error", "left out"):
        table.add_column(heading, justify="right")
    for entry in calibration.residuals:
        table.add_row(
            entry.group,
            str(entry.runs),
            f"{entry.mean:+.1%}",
            f"{entry.mean_absolute:.1%}",
            f"{entry.left_out:.1%}",
        )
    return table


def _values(calibration: Calibration) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("efficiency", no_wrap=True)
    table.add_column("fitted", justify="right")
    for name, value in calibration.values.items():
        table.add_row(name, f"{value:.4g}")
    for generation, values in calibration.software.items():
        for name, value in values.items():
            table.add_row(f"{name} ({generation})", f"{value:.4g}")
    return table


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"
