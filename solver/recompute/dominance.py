"""Rows of costs that no other row may replace, in any number of costs."""

from __future__ import annotations

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
    return order[_unbeaten(ordered, slack)]


def _unbeaten(ordered: Floats, slack: Floats) -> Index:
    """Places of rows in lexical order that none before is at most, but for ``slack``."""
    alive: list[Index] = []
    kept = np.zeros((0, ordered.shape[1]))
    for start in range(0, len(ordered), STRIP):
        strip = ordered[start : start + STRIP]
        rows = np.arange(len(strip))
        if len(kept):
            rows = rows[~_below(kept, strip + slack).any(axis=0)]
            strip = strip[rows]
        among = _below(strip, strip + slack)
        among &= _EARLIER[: len(strip), : len(strip)]
        left = ~among.any(axis=0)
        kept = np.concatenate([kept, strip[left]])
        alive.append(start + rows[left])
    return np.concatenate(alive)


def _below(one: Floats, other: Floats) -> npt.NDArray[np.bool_]:
    """Where a row of ``one`` is at most a row of ``other`` in every column."""
    found = one[:, 0][:, None] <= other[:, 0]
    for column in range(1, one.shape[1]):
        found &= one[:, column][:, None] <= other[:, column]
    return found
