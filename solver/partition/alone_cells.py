"""Bounds of many runs at once, as if no block's early bytes stood beside what another one rebuilds.

A choice then needs its own bytes while its block runs backward, and what it holds early while the
one behind it does. In cells of the working memory, what the end of a cell admits is bounded within
the bytes that its start leaves, at every one of a few prices (weak duality), by one product of the
runs' counts with a table of the least priced choices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.partition.core import ROUNDING
from solver.partition.menu import Floats, Index
from solver.partition.succession import Held

MOST_CELLS = 96
"""Cells of working memory."""

MOST_RUNS = 256
"""Runs that are bounded at once."""

NEVER = 1e250
"""Seconds and bytes of a choice that there is not."""


class AloneCells:
    """The table of one menu.

    Args:
        held: The choices of each link.
        behind: Temporary bytes of the block behind each link's.
        in_flight: Micro-batches in flight.
        prices: Seconds per kept byte.
    """

    def __init__(
        self, held: Sequence[Held], behind: Sequence[float], in_flight: int, prices: Floats
    ) -> None:
        self._in_flight = in_flight
        self._prices = np.concatenate([[0.0], prices])
        needs = [
            np.maximum(one.needs, np.where(one.early > 0, one.early + after, 0.0))
            for one, after in zip(held, behind, strict=True)
        ]
        every = np.unique(np.concatenate(needs))
        high = few(every, MOST_CELLS)
        before = np.searchsorted(every, high[:-1], side="right")
        self._low = np.append(every[0], every[before])
        tables = []
        for one, need in zip(held, needs, strict=True):
            priced = one.seconds + self._prices[:, None] * one.kept
            found = least_within(need, np.concatenate([one.kept[None], priced]), high)
            tables.append(np.where(np.isfinite(found), found, NEVER))
        self._kept = np.stack([table[0] for table in tables])
        self._priced = np.stack([table[1:].ravel() for table in tables])

    def bounds(self, counts: Index, budget: Floats) -> Floats:
        """Least seconds at best, shape (runs,); infinite where a run cannot fit.

        Args:
            counts: Blocks of each link, shape (runs, links).
            budget: Bytes beside states and reserve, shape (runs,).
        """
        found = np.empty(len(counts))
        for start in range(0, len(counts), MOST_RUNS):
            some = slice(start, start + MOST_RUNS)
            blocks = counts[some].astype(np.float64)
            width = (budget[some, None] - self._low) / self._in_flight
            value = (blocks @ self._priced).reshape(len(blocks), len(self._prices), -1)
            value -= self._prices[:, None] * width[:, None, :]
            room = blocks @ self._kept <= width + np.abs(width) * ROUNDING
            least = np.where(room, value.max(axis=1), np.inf).min(axis=1)
            found[some] = np.maximum(least, 0.0)
        return found


def least_within(needs: Floats, costs: Floats, values: Floats) -> Floats:
    """The least of costs (..., choices) of the choices that each memory admits, (..., memories)."""
    order = np.argsort(needs, kind="stable")
    at = np.searchsorted(needs[order], values * (1 + ROUNDING), side="right")
    nothing = np.full((*costs.shape[:-1], 1), np.inf)
    so_far = np.minimum.accumulate(costs[..., order], axis=-1)
    return np.asarray(np.concatenate([nothing, so_far], axis=-1)[..., at])


def few(values: Floats, most: int) -> Floats:
    """At most so many of these, the least and the most among them."""
    picked = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round())
    return np.asarray(values[picked.astype(int)])
