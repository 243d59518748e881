"""Rows of costs that no other row may replace, in any number of costs."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

TOLERANCE = 1e-12
"""Relative size below which two sums of the same numbers count as equal."""

STRIP = 512
"""Rows that are compared with all rows before them at once."""


_EARLIER = np.triu(np.ones((STRIP, STRIP), dtype=bool), k=1)
"""Which rows of a strip stand before which."""


def undominated_rows(costs: Floats) -> Index:
    """Rows, by ascending first column, that no other row is at most in every column.

    Of rows equal within rounding the first one stays. ``costs`` has shape (rows, columns).
    """
    if len(costs) < 2:
        return np.arange(len(costs))
    finite = np.where(np.isfinite(costs), costs, 0.0)
    slack = TOLERANCE * np.abs(finite).max(axis=0)
    told_apart = np.flatnonzero((costs != costs[0]).any(axis=0))
    if not len(told_apart):
        return np.zeros(1, dtype=np.int64)
    costs, slack = costs[:, told_apart], slack[told_apart]
    order = np.lexsort(costs.T[::-1])
    if len(told_apart) == 1:
        return order[:1]
    ordered = costs[order]
    if len(told_apart) == 2:
        least = np.minimum.accumulate(ordered[:, 1])
        return np.asarray(order[np.append(True, least[:-1] > ordered[1:, 1] + slack[1])])
    unbeaten = _swept if len(told_apart) == 3 else _unbeaten
    return np.asarray(order[unbeaten(ordered, slack)])


def _swept(ordered: Floats, slack: Floats) -> Index:
    """Places of rows, in lexical order, that none before is at most: three columns, and slack.

    Those before are at most a row in the first column. In the other two they stand as a staircase,
    ascending in the second column and falling in the third: the step to look at is the last that is
    not beyond the row.
    """
    across: list[float] = []
    down: list[float] = []
    left: list[int] = []
    _, more, higher = slack.tolist()
    for place, (second, third) in enumerate(ordered[:, 1:].tolist()):
        step = bisect_right(across, second + more)
        if step and down[step - 1] <= third + higher:
            continue
        left.append(place)
        start = stop = bisect_right(across, second)
        if start and across[start - 1] == second and down[start - 1] >= third:
            start -= 1
        while stop < len(down) and down[stop] >= third:
            stop += 1
        across[start:stop] = [second]
        down[start:stop] = [third]
    return np.array(left, dtype=np.int64)


def _unbeaten(ordered: Floats, slack: Floats) -> Index:
    """The same of any number of columns: each row with all before it, by ranks, short numbers."""
    short = np.int16 if len(ordered) < np.iinfo(np.int16).max else np.int32
    ranks = []
    for column, more in zip(ordered.T[1:], slack[1:].tolist(), strict=True):
        values = np.sort(column)
        own = np.searchsorted(values, column).astype(short)
        most = np.searchsorted(values, column + more, side="right").astype(short)
        ranks.append((own, most))
    left = np.zeros(0, dtype=np.int64)
    for start in range(0, len(ordered), STRIP):
        rows = np.arange(start, min(start + STRIP, len(ordered)))
        if len(left):
            rows = rows[~_below(ranks, left, rows).any(axis=0)]
        among = _below(ranks, rows, rows)
        among &= _EARLIER[: len(rows), : len(rows)]
        left = np.append(left, rows[~among.any(axis=0)])
    return left


def _below(
    ranks: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], one: Index, other: Index
) -> npt.NDArray[np.bool_]:
    """Where a row of ``one`` is at most a row of ``other`` in every column."""
    found = np.ones((len(one), len(other)), dtype=bool)
    for own, most in ranks:
        found &= own[one][:, None] < most[other]
    return found
