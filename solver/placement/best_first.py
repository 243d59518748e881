"""Multisets of items that fill a container exactly, the cheapest first.

What is left to fill, and how cheaply it can be with the items from some one on, is a table (integer
knapsack; multiplicities are free). So the search never leaves a path that cannot be completed, and
the next cheapest filling is one step away: of every state only the best way on that was not taken
yet waits in the queue (k shortest paths by lazy siblings).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Item = tuple[tuple[int, ...], float]
"""What an item fills of every dimension, and its cost, at least 0."""

_Ways = tuple[list[float], list[int]]
_Waiting = tuple[float, int, float, int, int, int, tuple[int, ...]]
"""Value, turn, spent so far, first item that may follow, what is left, rank of the way, taken."""


class Fillings:
    """Fillings of a container of ``size`` in each of a few dimensions."""

    def __init__(self, items: Sequence[Item], size: int) -> None:
        """``items``: at least one; all of the same number of dimensions, none of them empty."""
        self._amounts = np.array([amounts for amounts, _ in items], dtype=np.int64)
        self._costs = np.array([cost for _, cost in items])
        self._radix, dimensions = size + 1, self._amounts.shape[1]
        self._strides = self._radix ** np.arange(dimensions - 1, -1, -1)
        self._steps = self._amounts @ self._strides
        self._whole = int(size * self._strides.sum())
        self._least = _least(self._amounts, self._costs, size)
        self._known: dict[tuple[int, int], _Ways] = {}

    def cheapest(self, budget: float, steps: int) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Costs up to ``budget``, ascending, with the items taken, in ascending order.

        Ends after ``steps`` of the search at the latest.
        """
        values, _ = self._ways(0, self._whole)
        if not values:
            return
        queue: list[_Waiting] = [(values[0], 0, 0.0, 0, self._whole, 0, ())]
        pushed = 1
        for _ in range(steps):
            if not queue or queue[0][0] > budget:
                return
            _, _, spent, first, left, rank, taken = heapq.heappop(queue)
            values, items = self._ways(first, left)
            if rank + 1 < len(values):
                later = (spent + values[rank + 1], pushed, spent, first, left, rank + 1, taken)
                heapq.heappush(queue, later)
                pushed += 1
            item = items[rank]
            left, spent = left - int(self._steps[item]), spent + float(self._costs[item])
            if left == 0:
                yield spent, (*taken, item)
                continue
            values, _ = self._ways(item, left)
            heapq.heappush(queue, (spent + values[0], pushed, spent, item, left, 0, (*taken, item)))
            pushed += 1

    def _ways(self, first: int, left: int) -> _Ways:
        """Of the items from ``first`` on those that can be next, the best first, and the value."""
        if (first, left) not in self._known:
            room = left // self._strides % self._radix
            items = np.flatnonzero((self._amounts[first:] <= room).all(axis=1)) + first
            values = self._costs[items] + self._least[items, left - self._steps[items]]
            order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
            self._known[first, left] = values[order].tolist(), items[order].tolist()
        return self._known[first, left]


def _least(
    amounts: npt.NDArray[np.int64], costs: npt.NDArray[np.float64], size: int
) -> npt.NDArray[np.float64]:
    """The least cost of filling what is left with items from each one on.

    Shape (items, (size + 1) ** dimensions).
    """
    count, dimensions = amounts.shape
    table = np.full((count + 1, *(size + 1,) * dimensions), np.inf)
    table[count].flat[0] = 0.0
    for item in range(count - 1, -1, -1):
        here, amount = table[item], amounts[item]
        here[...] = table[item + 1]
        before = tuple(slice(0, size + 1 - int(each)) for each in amount)
        after = tuple(slice(int(each), size + 1) for each in amount)
        once_more = table[item + 1]
        for _ in range(min(size // int(each) for each in amount if each)):
            filled = np.full_like(here, np.inf)
            filled[after] = once_more[before] + costs[item]
            np.minimum(here, filled, out=here)
            once_more = filled
    return table[:count].reshape(count, -1)
