"""The page of a calibration: what it was fitted to, how near it comes, and who uses it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi.responses import HTMLResponse

from service.console.quantities import percent
from service.pages import render
from service.pages.pictures.calibration import band, residuals
from service.pages.pictures.svg import NARROW
from service.store.calibrations import LOOKED_AT, Use
from solver.calibrations import Calibration

_TINY = 1e-3


@dataclass(frozen=True)
class Value:
    """A fitted efficiency as it is shown."""

    name: str
    figure: str
    source: str


def listing(found: Sequence[Calibration]) -> HTMLResponse:
    """The list of calibrations, newest first."""
    rows = [(each, within(each)) for each in found]
    return render.page("calibrations.html", rows=rows)


def page(calibration: Calibration, uses: Sequence[Use]) -> HTMLResponse:
    """The page of one."""
    named = {"calibration": {"name": calibration.name, "version": calibration.version}}
    has_residuals = bool(calibration.residuals)
    return render.page(
        "calibration.html",
        calibration=calibration,
        sentence=_sentence(calibration),
        within=within(calibration),
        values=_values(calibration),
        uses=uses,
        looked_at=LOOKED_AT,
        named=json.dumps(named)[1:-1],
        residuals=residuals(calibration.residuals) if has_residuals else None,
        residuals_narrow=residuals(calibration.residuals, NARROW) if has_residuals else None,
        band=band(calibration.band) if calibration.band else None,
        band_narrow=band(calibration.band, NARROW) if calibration.band else None,
    )


def within(calibration: Calibration) -> str | None:
    """How far measurements may lie from a prediction: ``−13.4% to +15.5%``."""
    found = calibration.band
    if found is None:
        return None
    return f"{found.low - 1.0:+.1%} to {found.high - 1.0:+.1%}".replace("-", "−")


def _sentence(calibration: Calibration) -> str:
    runs = calibration.runs or 0
    fitted = f"Fitted to {runs:,} run{'' if runs == 1 else 's'} of {calibration.device}"
    if calibration.mean_error is None:
        return f"{fitted}."
    sentence = f"{fitted}: {percent(calibration.mean_error)} off on average"
    if calibration.mean_error_left_out is None:
        return f"{sentence}."
    unseen = percent(calibration.mean_error_left_out)
    return f"{sentence}, {unseen} on runs that the fit did not see."


def _values(calibration: Calibration) -> list[Value]:
    given = [(name, name, value) for name, value in calibration.values.items()]
    for generation, values in calibration.software.items():
        given += [
            (f"{name} ({generation})", f"{generation}.{name}", value)
            for name, value in values.items()
        ]
    return [
        Value(shown.replace("_", " "), _figure(name, value), calibration.sources.get(name, ""))
        for shown, name, value in given
    ]


def _figure(name: str, value: float) -> str:
    if not name.endswith("seconds"):
        return f"{value:.4g}"
    return f"{value * 1e6:.4g} µs" if value < _TINY else f"{value * 1e3:.4g} ms"
