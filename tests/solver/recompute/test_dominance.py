"""Undominated rows against comparing every row with every other."""

from __future__ import annotations

import numpy as np
import pytest

from solver.recompute import dominance
from solver.recompute.dominance import undominated_rows


def compared(costs: np.ndarray) -> set[tuple[float, ...]]:
    """The different rows that no other different row is at most in every column."""
    rows = np.unique(costs, axis=0)
    at_most = (rows[:, None] <= rows).all(axis=2) & ~np.eye(len(rows), dtype=bool)
    return {tuple(row) for row in rows[~at_most.any(axis=0)].tolist()}


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("many", [7, 60, 300])
def test_what_is_left_is_what_no_other_row_replaces(columns: int, many: int) -> None:
    chance = np.random.default_rng(columns * many)
    for most in (3, 12, 10**6):
        costs = chance.integers(0, most, (many, columns)).astype(float)
        costs[chance.random(costs.shape) < 0.03] = np.inf
        rows = undominated_rows(costs)
        assert {tuple(row) for row in costs[rows].tolist()} == compared(costs)
        assert len(rows) == len(compared(costs)), "of equal rows one stays"
        assert (np.diff(costs[rows, 0]) >= 0).all(), "by ascending first column"


def test_strips_leave_the_same_rows_as_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = np.random.default_rng(0).random((400, 5))
    whole = undominated_rows(costs)
    monkeypatch.setattr(dominance, "STRIP", 64)
    assert undominated_rows(costs).tolist() == whole.tolist()


def test_rows_that_differ_by_rounding_count_as_equal() -> None:
    for columns in (2, 3, 4):
        costs = np.ones((2, columns))
        costs[1, 1:] -= 1e-15
        costs[1, 0] += 1e-15
        assert len(undominated_rows(costs)) == 1
