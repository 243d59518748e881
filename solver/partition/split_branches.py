"""The relaxation of splits with whole blocks: branched, rows added in every branch.

Every device holds a whole number of blocks of each kind, and so does every stage; of 96 layers and
a head on 8 devices one has 12 layers and the head, or 13. The branch of least bound is next: it is
solved, and the critical paths of its solution become rows for all branches. Once they raise its
bound no more it is divided at a number of blocks that is not whole, a device's before a stage's.
The least bound of all branches is one of every plan, whenever it is asked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from solver.partition.relaxed_splits import RelaxedSplit, RelaxedSplits, Unsolved

Limits = dict[int, tuple[float, float]]
"""Of a number of blocks, by its place in ``RelaxedSplits.numbers``: its least and most."""

WHOLE = 1e-4
"""Part of a block by which a number may be off and count as whole."""

RISES = 0.03
"""Of what a branch's bound lacks, the part that new rows must make up, or it is divided."""


@dataclass(order=True)
class _Branch:
    bound: float
    place: int
    limits: Limits = field(compare=False)


class SplitBranches:
    """Branches of a relaxation; its own limits are left as they are found."""

    def __init__(self, relaxed: RelaxedSplits) -> None:
        self._relaxed = relaxed
        self._number = itertools.count()
        self._open = [_Branch(0.0, next(self._number), {})]
        self._least_done = math.inf

    @property
    def bound(self) -> float:
        """Of every plan; infinite if no branch fits the memory."""
        return min(self._least_done, self._open[0].bound if self._open else math.inf)

    def step(
        self, target: float, seconds: float, add_rows: Callable[[RelaxedSplit], int]
    ) -> RelaxedSplit | None:
        """Solve the branch of least bound, and divide it or put it back; None if none is left.

        Args:
            target: A bound from which on a branch is done with.
            seconds: For how long at most.
            add_rows: Adds rows for a solution, and says how many are new.
        """
        while self._open and self.bound < target:
            branch = heappop(self._open)
            with self._relaxed.limited(branch.limits):
                found = self._relaxed.solve(seconds)
            if isinstance(found, Unsolved):
                self._least_done = min(self._least_done, branch.bound)
                return None
            if found is None:
                continue
            bound = max(found.bound, branch.bound)
            lacks = (target if math.isfinite(target) else 2 * bound) - branch.bound
            fresh = add_rows(found) if bound < target else 0
            if bound >= target or (fresh and bound - branch.bound > RISES * lacks):
                self._put(bound, branch.limits)
            else:
                self._divide(bound, branch.limits, found, fresh)
            return found
        return None

    def _put(self, bound: float, limits: Limits) -> None:
        heappush(self._open, _Branch(bound, next(self._number), limits))

    def _divide(self, bound: float, limits: Limits, found: RelaxedSplit, fresh: int) -> None:
        """Two branches at a number that is not whole; where there is none it is done with."""
        anything = (0.0, math.inf)
        numbers = [
            min(max(number, limits.get(place, anything)[0]), limits.get(place, anything)[1])
            for place, number in enumerate(found.numbers)
        ]
        off = np.array([abs(number - round(number)) for number in numbers])
        devices = off[: found.devices]
        place = int(devices.argmax()) if devices.max(initial=0.0) > WHOLE else int(off.argmax())
        if off[place] <= WHOLE:
            if fresh:
                self._put(bound, limits)
            else:
                self._least_done = min(self._least_done, bound)
            return
        low, high = limits.get(place, anything)
        below = float(math.floor(numbers[place]))
        self._put(bound, {**limits, place: (low, below)})
        self._put(bound, {**limits, place: (below + 1, high)})
