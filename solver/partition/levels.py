"""What the working memory of a stage admits: for each value it can take, the choices within it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from solver.partition.core import ROUNDING
from solver.partition.few_mixes import FEW, FEW_BLOCKS, MANY, FewMixes, few_mixes
from solver.partition.halves import Halves
from solver.partition.hulls import MUCH, Hulls, corners, slopes
from solver.partition.menu import Floats, Index
from solver.recompute.frontier import Frontier

QUICK = 8
"""Values of working memory that quick mixes are made for."""


@dataclass(frozen=True, eq=False)
class Level:
    """The choices whose working memory stays within one value, and their Lagrangian function.

    ``prices`` has shape (prices,), ascending; ``phi`` (kinds, prices), infinite where no choice is
    admitted; ``admitted`` holds the rows of each kind's frontier.
    """

    prices: Floats
    phi: Floats
    admitted: tuple[Index, ...]


class Levels:
    """The values of working memory, ascending, and per kind the least kept bytes within each.

    ``values`` has shape (values,), ``least`` (kinds, values), infinite where nothing is admitted.
    ``entry`` holds, per kind, the place of the value at which each choice comes in; ``steps`` the
    places of the values within which some kind can be held in fewer bytes than before.
    """

    def __init__(self, frontiers: tuple[Frontier, ...], working: tuple[float, ...]) -> None:
        self._frontiers = frontiers
        self._peaks = [front.rebuilt + more for front, more in zip(frontiers, working, strict=True)]
        self.values = np.unique(np.concatenate(self._peaks))
        self.least = np.stack(
            [
                _least_so_far(front.kept, peak, self.values)
                for front, peak in zip(frontiers, self._peaks, strict=True)
            ]
        )
        falls = (self.least[:, 1:] < self.least[:, :-1]).any(axis=0)
        self.steps = np.flatnonzero(np.append(True, falls))
        # Where each choice first comes in; its own peak is that value.
        self.entry = [
            np.minimum(np.searchsorted(self.values * (1 + ROUNDING), peak), len(self.values) - 1)
            for peak in self._peaks
        ]
        self._made: dict[tuple[int, tuple[int, ...]], Level] = {}
        self._few: dict[tuple[tuple[int, ...], int], FewMixes | None] = {}
        self._halves: dict[tuple[int, ...], Halves | None] = {}
        self._table: tuple[Floats, Floats] | None = None

    @cached_property
    def needed(self) -> Floats:
        """``least``, with more bytes than there are where nothing is admitted."""
        return np.where(np.isfinite(self.least), self.least, MUCH)

    @cached_property
    def entering(self) -> list[tuple[Index, Index, Index]]:
        """Per kind its choices in the order in which they come in, where those of each value begin
        in it, and the places of these values.
        """
        found = []
        for entry in self.entry:
            order = np.argsort(entry, kind="stable")
            places, first = np.unique(entry[order], return_index=True)
            found.append((order, first, places))
        return found

    def at(self, place: int, kinds: tuple[int, ...] | None = None) -> Level:
        """The choices within the value at that place, of some kinds or of all."""
        key = (place, tuple(range(len(self._frontiers))) if kinds is None else kinds)
        if key not in self._made:
            self._made[key] = self._make(float(self.values[place]) * (1 + ROUNDING), key[1])
        return self._made[key]

    @cached_property
    def spread(self) -> Index:
        """Places of a few values, the last one of them, for quick mixes."""
        last = len(self.values) - 1
        return np.unique(np.linspace(last, 0, min(QUICK, last + 1)).round().astype(np.int64))

    @cached_property
    def hulls(self) -> Hulls:
        """The hulls of the choices within the values of ``spread``."""
        limits = self.values[self.spread] * (1 + ROUNDING)
        return Hulls(
            [
                [
                    corners(front.kept[peak <= limit], front.seconds[peak <= limit])
                    for front, peak in zip(self._frontiers, self._peaks, strict=True)
                ]
                for limit in limits.tolist()
            ]
        )

    def few(self, counts: tuple[int, ...], most: int = FEW) -> FewMixes | None:
        """All mixes of a run of these counts; None if they are more than ``most``, or none."""
        key = (counts, most)
        if key not in self._few:
            self._few[key] = few_mixes(counts, self._frontiers, self.entry, most)
        return self._few[key]

    def halves(self, counts: tuple[int, ...]) -> Halves | None:
        """A run of these counts as two halves; None if one of them has too many mixes."""
        if counts not in self._halves:
            kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
            several = [kind for kind in kinds if len(self._frontiers[kind].kept) > 1]
            parts = [several[: (len(several) + 1) // 2], several[(len(several) + 1) // 2 :]]
            parts[0] += [kind for kind in kinds if len(self._frontiers[kind].kept) <= 1]
            whole = len(several) in range(2, 2 * FEW_BLOCKS + 1)
            made = [self.few(self._counted(part), MANY) if whole else None for part in parts]
            one, other = made
            self._halves[counts] = None if one is None or other is None else Halves(one, other)
        return self._halves[counts]

    def _counted(self, kinds: list[int]) -> tuple[int, ...]:
        return tuple(kinds.count(kind) for kind in range(len(self._frontiers)))

    def table(self) -> tuple[Floats, Floats]:
        """All levels side by side: prices (values, prices) and phi (kinds, values, prices).

        Shorter levels repeat their last price; ``phi`` is zero where no choice is admitted, which
        ``least`` tells.
        """
        if self._table is None:
            made = [self.at(place) for place in range(len(self.values))]
            most = max(len(level.prices) for level in made)
            prices = np.empty((len(made), most))
            phi = np.empty((len(self._frontiers), len(made), most))
            for row, level in enumerate(made):
                padded = np.minimum(np.arange(most), len(level.prices) - 1)
                prices[row] = level.prices[padded]
                phi[:, row] = np.where(np.isfinite(level.phi), level.phi, 0.0)[:, padded]
            self._table = prices, phi
        return self._table

    def _make(self, limit: float, kinds: tuple[int, ...]) -> Level:
        admitted = tuple(
            np.flatnonzero(peak <= limit) if kind in kinds else np.zeros(0, dtype=np.int64)
            for kind, peak in enumerate(self._peaks)
        )
        return level_of(
            [front.kept for front in self._frontiers],
            [front.seconds for front in self._frontiers],
            admitted,
        )


def level_of(
    kept: Sequence[Floats], seconds: Sequence[Floats], admitted: tuple[Index, ...]
) -> Level:
    """The level of these rows of each kind's choices, which are by ascending kept bytes."""
    prices = {0.0}
    for size, time, rows in zip(kept, seconds, admitted, strict=True):
        prices.update(slopes(corners(size[rows], time[rows])))
    price = np.array(sorted(prices))
    phi = np.full((len(kept), len(price)), math.inf)
    for kind, (size, time, rows) in enumerate(zip(kept, seconds, admitted, strict=True)):
        if len(rows):
            phi[kind] = (time[rows, None] + size[rows, None] * price).min(axis=0)
    return Level(price, phi, admitted)


@lru_cache(maxsize=128)
def levels(frontiers: tuple[Frontier, ...], working: tuple[float, ...]) -> Levels:
    """The levels of frontiers; layouts and memory limits that share blocks share them."""
    return Levels(frontiers, working)


def _least_so_far(kept: Floats, peaks: Floats, values: Floats) -> Floats:
    """Least kept bytes among the choices within each value; infinite where there is none."""
    order = np.argsort(peaks, kind="stable")
    least = np.append(np.minimum.accumulate(kept[order]), math.inf)
    within = np.searchsorted(peaks[order], values * (1 + ROUNDING), side="right")
    return np.asarray(least[within - 1])
