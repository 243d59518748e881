"""A bound that knows that every stage is filled by whole numbers of leafs, each with whole cells.

A stage is a partition of its rows into heights, and a leaf is a profile of heights; over all stages
as many of every height are needed as leafs give. With a worth w(h) of each height this says

    crossing >= constant + stages x min over partitions of sum of w(h)
                + min over cells c_l of the leafs, together the grid, of sum over leafs of g(c_l)

where g(c) is the least of cost less worth over profiles of c cells (cost as in ``program.py``).
With w proportional to h it is the bound of ``least.py``; the best worths are the prices of a linear
program whose columns, profiles and partitions, are generated (Gilmore and Gomory 1961).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import pywraplp

from solver.placement.grid import Grid, Profile, profile_cost
from solver.placement.least import filled_at_least

Floats = npt.NDArray[np.float64]

MOST_ROUNDS = 50
MOST_WORK = 2e6
"""Steps of one round up to which the bound is worked out."""

_SMALL = 1e-9


def least_of_whole_leafs(
    grid: Grid, capacities: Sequence[int], begun: Sequence[Profile], enough: float
) -> float:
    """The bound, bytes; 0 where it would take too long.

    Args:
        grid: The cells.
        capacities: Cells of every leaf.
        begun: Profiles of a placement.
        enough: Bytes at which no better bound is sought.
    """
    leafs = [capacity for capacity in capacities if capacity]
    most = max(leafs)
    if float(min(grid.stages, most)) * (min(grid.rows, most) + 1) * (most + 1) > MOST_WORK:
        return 0.0
    scale = max(grid.group_bytes, grid.edge_bytes)
    grid = replace(grid, group_bytes=grid.group_bytes / scale, edge_bytes=grid.edge_bytes / scale)
    constant = grid.edge_bytes * grid.rows * (grid.stages - 1)
    master = _Master(grid, leafs, begun)
    best = 0.0
    for _ in range(MOST_ROUNDS):
        if not master.solve():
            break
        heights, partitions = _least_partitions(master.worths, grid.rows)
        table = _Profiles(grid, master.worths, most)
        leafs_least = filled_at_least(table.least, leafs, grid.cells)
        best = max(best, constant + grid.stages * heights + leafs_least)
        new = False
        for partition in partitions:
            new |= master.add_partition(partition)
        for cells in range(1, most + 1):
            if table.least[cells] + master.rent(cells) < -_SMALL:
                new |= master.add_profile(table.best(cells))
        if not new or best * scale >= enough:
            break
    return best * scale


class _Master:
    """The linear program over the profiles and partitions at hand.

    ``worths``: of a height, shape (rows + 1,).
    """

    def __init__(self, grid: Grid, leafs: Sequence[int], begun: Sequence[Profile]) -> None:
        self._grid = grid
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._objective = self._solver.Objective()
        self._objective.SetMinimization()
        self._heights = [self._solver.Constraint(0, 0) for _ in range(grid.rows)]
        self._stages = self._solver.Constraint(grid.stages, grid.stages)
        self._there = sorted(set(leafs))
        below = -self._solver.infinity()
        self._leafs = [
            (least, self._solver.Constraint(below, sum(each > least for each in leafs)))
            for least in (0, *self._there[:-1])
        ]
        self._known: set[tuple[int, ...]] = set()
        self._partitions: set[tuple[int, ...]] = set()
        self.worths: Floats = np.zeros(grid.rows + 1)
        self._rents: Floats = np.zeros(len(self._there))
        for profile in begun:
            self.add_profile(profile)
        for heights in zip(*begun, strict=True):
            self.add_partition(tuple(sorted(filter(None, heights))))

    def add_profile(self, profile: Profile) -> bool:
        """Take a leaf's profile in; whether it is new. Where its stages are does not matter."""
        heights = tuple(filter(None, profile))
        if heights in self._known:
            return False
        self._known.add(heights)
        amount = self._solver.NumVar(0, self._solver.infinity(), "")
        self._objective.SetCoefficient(amount, profile_cost(self._grid, profile))
        for height, count in Counter(heights).items():
            self._heights[height - 1].SetCoefficient(amount, count)
        for least, row in self._leafs:
            if sum(heights) > least:
                row.SetCoefficient(amount, 1)
        return True

    def add_partition(self, heights: tuple[int, ...]) -> bool:
        """Take a stage's heights in; whether they are new."""
        if heights in self._partitions:
            return False
        self._partitions.add(heights)
        amount = self._solver.NumVar(0, self._solver.infinity(), "")
        self._stages.SetCoefficient(amount, 1)
        for height, count in Counter(heights).items():
            self._heights[height - 1].SetCoefficient(amount, -count)
        return True

    def solve(self) -> bool:
        """Whether there is a solution; worths and rents are set then."""
        if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
            return False
        self.worths[1:] = [row.dual_value() for row in self._heights]
        self._rents = -np.cumsum([row.dual_value() for _, row in self._leafs])
        return True

    def rent(self, cells: int) -> float:
        """Of the smallest leaf with so many cells."""
        return float(self._rents[int(np.searchsorted(self._there, cells))])


class _Profiles:
    """The least of cost less worth over profiles of every number of cells; ``least[cells]``.

    Dynamic programming as in ``least.least_costs``; no profile has a gap, as none would be better.
    """

    def __init__(self, grid: Grid, worths: Floats, most: int) -> None:
        tall = min(grid.rows, most)
        self._heights = np.arange(tall + 1)
        partly = (self._heights > 0) & (self._heights < grid.rows)
        own = grid.group_bytes * partly - worths[: tall + 1]
        self._kept = grid.edge_bytes * self._heights
        value = np.full((tall + 1, most + 1), np.inf)
        value[self._heights, self._heights] = own
        self._tables = [value]
        for _ in range(min(grid.stages, most) - 1):
            fewer = np.minimum.accumulate(value - self._kept[:, None], axis=0)
            more = np.minimum.accumulate(value[::-1], axis=0)[::-1] - self._kept[:, None]
            reached = np.minimum(fewer, more)
            value = np.full_like(value, np.inf)
            for now in range(tall + 1):
                value[now, now:] = reached[now, : most + 1 - now] + own[now]
            self._tables.append(value)
        self.least: Floats = value.min(axis=0)

    def best(self, cells: int) -> Profile:
        """A profile that attains it."""
        now = int(self._tables[-1][:, cells].argmin())
        profile = [now]
        for table in reversed(self._tables[:-1]):
            cells -= now
            before = table[:, cells] - np.minimum(self._kept, self._kept[now])
            now = int(before.argmin())
            profile.append(now)
        return tuple(reversed(profile))


def _least_partitions(worths: Floats, rows: int) -> tuple[float, list[tuple[int, ...]]]:
    """The least worth of a partition of the rows into heights, and for each height the partition
    with it that is worth least.
    """
    best, last = np.zeros(rows + 1), [0] * (rows + 1)
    for height in range(1, rows + 1):
        values = worths[1 : height + 1] + best[height - 1 :: -1][:height]
        last[height] = int(values.argmin()) + 1
        best[height] = values.min()
    found = []
    for height in range(1, rows + 1):
        heights, left = [height], rows - height
        while left:
            heights.append(last[left])
            left -= last[left]
        found.append(tuple(sorted(heights)))
    return float(best[rows]), found
