"""The cheapest mix of a run of some more blocks, from all mixes of its two halves.

Beside so much working memory, only those mixes of a half count that no other one within it beats in
kept bytes and seconds: a staircase. The best mix of the run takes a step of either; for every step
of one the cheapest step of the other that still fits is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solver.partition.few_mixes import FewMixes
from solver.partition.menu import Floats, Index

_Parts = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class _Half:
    """The mixes of a half, by ascending kept bytes, and the staircases made of them so far."""

    mixes: FewMixes
    order: Index
    stairs: dict[int, Index] = field(default_factory=dict)

    @classmethod
    def of(cls, mixes: FewMixes) -> _Half:
        return cls(mixes, np.lexsort((mixes.seconds, mixes.kept)))

    def within(self, value: int) -> Index:
        """Rows by ascending kept bytes and descending seconds, of working memory up to a value."""
        if value not in self.stairs:
            rows = self.order[self.mixes.value[self.order] <= value]
            seconds = self.mixes.seconds[rows]
            least = np.minimum.accumulate(seconds)
            self.stairs[value] = rows[np.diff(least, prepend=np.inf) < 0]
        return self.stairs[value]


class Halves:
    """All mixes of a run, as pairs of the mixes of its halves.

    Args:
        first, second: The mixes of the halves.
    """

    def __init__(self, first: FewMixes, second: FewMixes) -> None:
        self._first, self._second = _Half.of(first), _Half.of(second)

    def best(self, value: int, width: float) -> tuple[float, int, int] | None:
        """The least seconds within a value of working memory and so many kept bytes, and which
        mixes of the halves; None if nothing fits.
        """
        one, other = self._first.within(value), self._second.within(value)
        room: Floats = width - self._first.mixes.kept[one]
        at = np.searchsorted(self._second.mixes.kept[other], room, side="right") - 1
        fits = at >= 0
        if not fits.any():
            return None
        one, other = one[fits], other[at[fits]]
        seconds = self._first.mixes.seconds[one] + self._second.mixes.seconds[other]
        place = int(seconds.argmin())
        return float(seconds[place]), int(one[place]), int(other[place])

    def parts(self, first: int, second: int) -> _Parts:
        """(kind, choice, count) of two mixes together."""
        found: dict[tuple[int, int], int] = {}
        halves = (self._first.mixes.parts(first), self._second.mixes.parts(second))
        for kind, choice, count in (part for half in halves for part in half):
            found[kind, choice] = found.get((kind, choice), 0) + count
        return tuple((*of, count) for of, count in sorted(found.items()))
