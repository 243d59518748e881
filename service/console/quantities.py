"""Quantities in the units that people read them in."""

from __future__ import annotations

GIBIBYTE = 2.0**30


def duration(seconds: float) -> str:
    """``14.2 s``, ``830 ms`` or ``2 h 5 min``: three significant digits."""
    if seconds >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60} min"
    if seconds >= 1:
        return f"{_three(seconds)} s"
    if seconds >= 1e-3:
        return f"{_three(seconds * 1e3)} ms"
    return f"{_three(seconds * 1e6)} µs" if seconds else "0 s"


def milliseconds(seconds: float) -> str:
    """A number of milliseconds for a column."""
    return _three(seconds * 1e3)


def gibibytes(count: float) -> str:
    """A number of GiB for a column."""
    return f"{count / GIBIBYTE:.1f}"


def size(count: float) -> str:
    """``71.3 GiB`` or ``320 MiB``: three significant digits."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(count) >= 0.9995 * 2.0**power:
            return f"{_three(count / 2.0**power)} {unit}"
    return f"{count:.0f} B"


def percent(share: float) -> str:
    """A share; small ones keep two digits that say something, and none becomes a false zero."""
    if share == 0:
        return "0%"
    hundredths = share * 100
    if hundredths < 0.001:
        return "<0.001%"
    return f"{hundredths:.2g}%" if hundredths < 10 else f"{hundredths:.0f}%"


def times(ratio: float) -> str:
    """A speed-up, such as ``1.28x``."""
    return f"{ratio:.2f}x"


def _three(value: float) -> str:
    if value == 0:
        return "0"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"
