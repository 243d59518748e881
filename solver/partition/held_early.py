"""A bound of every way in which the blocks of a stage hold for each other.

Paths (``succession.py``) are bounded in cells of the working memory R: what the end of a cell
admits, within the bytes that its start leaves. Cells whose bound is below the mix in hand are
split, and each looks for its price where the tangents of its last two paths meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.partition.core import ROUNDING
from solver.partition.menu import Floats, Index
from solver.partition.succession import Succession

FIRST_CELLS = 8
"""Cells that a search begins with."""

MOST_SPLIT = 4
"""Cells that are split at once."""

PIECES = 4
"""Cells that one is split into."""

MOST_ROUNDS = 2
"""Times that cells are split."""

AROUND = np.array([0.25, 0.7, 1.0, 1.5, 4.0, 1e6])
"""Prices to begin with, in units of the one that a mix was found at; the last to keep least."""

ASIDE = 1e-7
"""How far from where tangents meet, relative to it, prices on both sides are taken."""


class HeldEarly:
    """One stage's bound.

    Args:
        succession: What may follow what.
        links: The link of every block, in the order of the model.
        budget: Bytes beside states and reserve.
        in_flight: Micro-batches in flight.
        price: Seconds per kept byte to begin around.
    """

    def __init__(
        self,
        succession: Succession,
        links: Sequence[int],
        budget: float,
        in_flight: int,
        price: float,
    ) -> None:
        self._succession, self._links = succession, links
        self._budget, self._in_flight, self._price = budget, in_flight, price

    def bound(self, enough: float) -> tuple[float, Index, Index]:
        """Seconds that no choices are below; looked for as long as it is less than ``enough``.

        With it, of every cell looked at, the choices on both sides of its price: those that keep
        too much, and those that keep little enough; shape (cells, blocks).
        """
        every = np.linspace(0, len(self._succession.values), FIRST_CELLS + 1)
        edges = np.unique(every.round().astype(np.int64))
        low, high = edges[:-1], edges[1:] - 1
        cells = self._look(low, high, np.tile(self._price * AROUND, (len(low), 1)))
        looked = [cells]
        for _ in range(MOST_ROUNDS):
            promising = np.argsort(cells.bound, kind="stable")[:MOST_SPLIT]
            promising = promising[cells.bound[promising] < enough]
            if not len(promising):
                break
            pieces = cells.pieces(promising)
            prices = pieces.meet[:, None] * np.array([1 - ASIDE, 1 + ASIDE])
            others = np.setdiff1d(np.arange(len(cells.bound)), promising)
            looked.append(self._look(pieces.low, pieces.high, prices, pieces))
            cells = cells.at(others).beside(looked[-1])
        cheap, dear = (
            np.concatenate(sides) for sides in zip(*(one.sides for one in looked), strict=True)
        )
        return max(float(cells.bound.min()), 0.0), cheap, dear

    def _look(self, low: Index, high: Index, prices: Floats, known: _Cells | None = None) -> _Cells:
        """Bound cells, each at its prices, shape (cells, prices).

        ``known``: what the cells that these are pieces of say.
        """
        many, rows = prices.shape[1], np.arange(len(low))
        paths = self._succession.cheapest(self._links, np.repeat(high, many), prices.ravel())
        width = (self._budget - self._succession.least[low]) / self._in_flight
        kept = paths.kept.sum(axis=1).reshape(prices.shape)
        seconds = paths.seconds.sum(axis=1).reshape(prices.shape)
        total = paths.total.reshape(prices.shape)
        # Kept bytes fall with the price: the last that keeps too much, and the first that does not.
        fits = kept <= width[:, None] * (1 + ROUNDING)
        last = np.where(fits.any(axis=1), fits.argmax(axis=1), many)
        cheap, dear = np.maximum(last - 1, 0), np.minimum(last, many - 1)
        more, less = (part[rows, cheap] - part[rows, dear] for part in (kept, seconds))
        below = np.where(last == 0, 0.0, prices[rows, cheap])
        above = np.where(last == many, 4 * prices[:, -1], prices[rows, dear])
        value = np.where(np.isfinite(total), total - prices * width[:, None], np.inf)
        bound = value.max(axis=1)
        if known is not None:
            bound = np.maximum(bound, known.bound)
            below = np.maximum(below, np.where(last == 0, known.below, 0.0))
            above = np.where(last == many, np.maximum(known.above, prices[:, -1]), above)
        between = (last > 0) & (last < many) & (more > 0)
        meet = np.where(between, -less / np.where(more > 0, more, 1.0), (below + above) / 2)
        sides = paths.choices[rows * many + cheap], paths.choices[rows * many + dear]
        return _Cells(low, high, bound, below, meet, above, *sides)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Values from ``low`` to ``high`` (places), their bounds, and the prices to look between.

    ``cheap`` and ``dear`` are the choices on both sides of the price, shape (cells, blocks).
    """

    low: Index
    high: Index
    bound: Floats
    below: Floats
    meet: Floats
    above: Floats
    cheap: Index
    dear: Index

    def at(self, rows: Index) -> _Cells:
        """Some of the cells."""
        return _Cells(
            low=self.low[rows],
            high=self.high[rows],
            bound=self.bound[rows],
            below=self.below[rows],
            meet=self.meet[rows],
            above=self.above[rows],
            cheap=self.cheap[rows],
            dear=self.dear[rows],
        )

    def beside(self, other: _Cells) -> _Cells:
        """These cells and others."""
        return _Cells(
            low=np.concatenate([self.low, other.low]),
            high=np.concatenate([self.high, other.high]),
            bound=np.concatenate([self.bound, other.bound]),
            below=np.concatenate([self.below, other.below]),
            meet=np.concatenate([self.meet, other.meet]),
            above=np.concatenate([self.above, other.above]),
            cheap=np.concatenate([self.cheap, other.cheap]),
            dear=np.concatenate([self.dear, other.dear]),
        )

    @property
    def sides(self) -> tuple[Index, Index]:
        """The choices on both sides of the cells' prices."""
        return self.cheap, self.dear

    def pieces(self, rows: Index) -> _Cells:
        """Some cells in pieces, with what is known of the whole."""
        low, high, whole = [], [], []
        for row in rows.tolist():
            start, stop = int(self.low[row]), int(self.high[row]) + 1
            edges = np.unique(np.linspace(start, stop, PIECES + 1).round().astype(int))
            low.append(edges[:-1])
            high.append(edges[1:] - 1)
            whole += [row] * (len(edges) - 1)
        found = self.at(np.array(whole))
        return replace(found, low=np.concatenate(low), high=np.concatenate(high))
