"""Quantities are shown with three digits that say something."""

from __future__ import annotations

import pytest

from service.console.quantities import duration, milliseconds, percent, times


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (17.42, "17.4 s"),
        (1.5, "1.50 s"),
        (142.3, "142 s"),
        (0.83, "830 ms"),
        (2.5e-5, "25.0 µs"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0%"), (0.0007, "0.07%"), (1e-9, "<0.001%"), (0.069, "6.9%"), (0.69, "69%")],
)
def test_percentages_never_round_to_a_false_zero(share: float, shown: str) -> None:
    assert percent(share) == shown


def test_numbers_for_columns() -> None:
    assert milliseconds(0.0213) == "21.3"
    assert times(1.2399) == "1.24x"
