"""Every split at once, where the blocks are only a few more than the stages.

A split then says which stages hold one block more. Between two of them all blocks stand equally far
from the stage of their number, so that prefix sums give a priced path's length
(``priced_paths.py``) for all splits in a few look-ups.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from solver.partition.candidates import Cut
from solver.partition.menu import Floats, Index
from solver.partition.priced_paths import PricedPath


def splits_count(length: int, depth: int) -> int:
    """How many splits of so many blocks there are."""
    return math.comb(length - 1, depth - 1)


class FewSplits:
    """All splits of a sequence; arrays over them have shape (splits,)."""

    def __init__(self, sequence: tuple[int, ...], depth: int) -> None:
        self._kinds, self._depth = np.array(sequence), depth
        more = len(sequence) - depth
        chosen = list(itertools.combinations_with_replacement(range(depth), more))
        self._extra = np.array(chosen, dtype=np.int64).reshape(len(chosen), more)

    def __len__(self) -> int:
        return len(self._extra)

    def lengths(self, path: PricedPath) -> Floats:
        """The bound of every split."""
        blocks = np.arange(len(self._kinds))
        seconds = path.seconds.reshape(-1, self._depth, path.seconds.shape[1]).sum(axis=0)
        more = self._extra.shape[1]
        total = np.full(len(self), path.constant)
        for ahead in range(more + 1):
            stage = blocks - ahead
            there = (stage >= 0) & (stage < self._depth)
            each = np.where(there, seconds[np.clip(stage, 0, self._depth - 1), self._kinds], 0.0)
            sums = np.concatenate([[0.0], np.cumsum(each)])
            start = self._extra[:, ahead - 1] + ahead if ahead else 0
            stop = self._extra[:, ahead] + ahead + 1 if ahead < more else len(blocks)
            total += sums[stop] - sums[start]
        return total

    def at_spots(self, spots: Index, most: int) -> Index:
        """Splits whose longer stages are all among some; none if those are more than ``most``."""
        found = np.flatnonzero(np.isin(self._extra, spots).all(axis=1))
        return found if len(found) <= most else found[:0]

    def cuts(self, at: int) -> tuple[Cut, ...]:
        """One split, as runs [start, stop)."""
        more = (self._extra[at][:, None] < np.arange(self._depth + 1)).sum(axis=0)
        edges = np.arange(self._depth + 1) + more
        return tuple(itertools.pairwise(edges.tolist()))
