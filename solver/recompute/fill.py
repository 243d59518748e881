"""How full a window is, in steps that matter: which further ops it still takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""Relative excess over a window's length that counts as rounding."""

MOST_SUMS = 4096
"""Sums of ops beyond which a window's use is counted as it is."""


@dataclass(frozen=True, eq=False)
class Fill:
    """A window's capacity in seconds, and the uses told apart.

    ``sums``: every total that its ops can add up to, ascending, within the capacity; a use is then
    rounded up to the largest that leaves room for the same of them (the raster points of packing
    problems; Terno, Lindemann and Scheithauer 1987). Empty: uses count as they are. ``counts``:
    whether uses matter at all; they do not where there is room for everything.
    """

    capacity: float
    sums: Floats
    counts: bool = True

    @classmethod
    def roomy(cls, capacity: float) -> Fill:
        """The fill of a window that takes all that may ever stand in it."""
        return cls(capacity, np.zeros(0), counts=False)

    @classmethod
    def of(cls, capacity: float, seconds: Sequence[float]) -> Fill:
        """The fill of a window for ops of these durations, all that may ever stand in it."""
        return cls.growing(capacity, seconds)[-1]

    @classmethod
    def growing(cls, capacity: float, seconds: Sequence[float]) -> list[Fill]:
        """The fills for none of these ops, for the first one, for the first two, and so on."""
        sums = np.zeros(1)
        found = [cls(capacity, sums)]
        for duration in seconds:
            if len(sums):
                sums = np.unique(np.concatenate([sums, sums + duration]))
                sums = sums[sums <= capacity * (1 + ROUNDING)]
                apart = np.diff(sums, prepend=-np.inf) > capacity * ROUNDING
                sums = sums[apart]
            if len(sums) > MOST_SUMS:
                sums = np.zeros(0)
            found.append(cls(capacity, sums))
        return found

    def up(self, used: Floats) -> Floats:
        """Uses as they are told apart."""
        if not self.counts:
            return np.zeros_like(used)
        if not len(self.sums):
            return used
        left = self.capacity * (1 + ROUNDING) - used
        at = np.searchsorted(self.sums, left, side="right") - 1
        return np.asarray(np.where(at >= 0, self.capacity - self.sums[at], np.inf))
