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
    order = np.lexsort(costs.T[::-1])
    ordered = costs[order]
    finite = np.where(np.isfinite(ordered), ordered, 0.0)
    slack = TOLERANCE * np.abs(finite).max(axis=0, initial=0.0)
    alive: list[Index] = []
    kept = np.zeros((0, costs.shape[1]))
    for start in range(0, len(order), STRIP):
        strip = ordered[start : start + STRIP]
        rows = np.arange(len(strip))
        if len(kept):
            rows = rows[~_below(kept, strip + slack).any(axis=0)]
            strip = strip[rows]
        among = _below(strip, strip + slack)
        among &= _EARLIER[: len(strip), : len(strip)]
        left = ~among.any(axis=0)
        kept = np.concatenate([kept, strip[left]])
        alive.append(order[start + rows[left]])
    return np.concatenate(alive) if alive else np.zeros(0, dtype=np.int64)


def _below(one: Floats, other: Floats) -> npt.NDArray[np.bool_]:
    """Where a row of ``one`` is at most a row of ``other`` in every column."""
    found = one[:, 0][:, None] <= other[:, 0]
    for column in range(1, one.shape[1]):
        found &= one[:, column][:, None] <= other[:, column]
    return found
