"""Leafs for the cells of a plan: from what is quick to what is exact, until the bound is met."""

from __future__ import annotations

import bisect
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from solver.placement.blocks import Block, blocks
from solver.placement.cover import Stack, cover, profiles
from solver.placement.crossing import crossing_bytes, patterns
from solver.placement.every_profile import every_profile
from solver.placement.filling import fillings
from solver.placement.grid import Grid, Profile
from solver.placement.least import least_costs, least_of_leafs, worths
from solver.placement.program import ENOUGH, solve
from solver.placement.strips import strips
from solver.placement.whole_leafs import least_of_whole_leafs

Index = npt.NDArray[np.int64]


EXACT = 1e-9
"""Relative difference up to which a placement crosses no more than its bound."""

MOST_BEGUN = 8
"""Placements, the best ones, that the last program begins with."""

EXCESS, MOST_EXCESS = 0.012, 0.05
"""Of the crossing, how far a block may be above the least that its cells cost; and at most."""

FEW_BLOCKS, MOST_BLOCKS = 50, 1000
"""Blocks below which more is allowed, and how many, the best ones, stand beside strips."""

FEW_CELLS, CLOSE = 128, 0.01
"""Cells up to which the last program goes on to the end, and the gap from which it is left out for
more of them: there it takes long and finds little."""

NEAR = 0.003
"""Relative distance to the bound at which strips are not tried."""


def decided(grid: Grid, capacities: Index, deadline: float) -> tuple[Index, float]:
    """The leafs of every cell, shape (rows, stages), and the proved bound of their crossing.

    Args:
        grid: The cells.
        capacities: Cells of every leaf; together enough.
        deadline: Monotonic seconds at which to stop, should the work take so long. What is tried is
            limited by counts of it, so the same placement comes of it on any machine.
    """
    orderly, chosen = patterns(grid, capacities[None])
    if orderly[0] == 0.0 or grid.cells == 1:
        return chosen[0], 0.0
    in_time = itertools.takewhile(
        lambda _: time.monotonic() < deadline, fillings(grid, capacities.tolist())
    )
    known = _Known(grid, np.stack([chosen[0], *in_time]))
    costs = least_costs(grid, int(capacities.max()))
    lower = least_of_leafs(grid, costs, capacities.tolist())
    if lower >= known.least * (1 - EXACT):
        return known.best(1)[0], lower
    made = _Blocks(grid, capacities, costs, known.least)
    known.add(*made.of_blocks(deadline))
    used = _profiles(grid, known.best(1)[0], len(capacities))
    whole = least_of_whole_leafs(grid, capacities.tolist(), used, known.least * (1 - EXACT))
    lower = max(lower, min(whole, known.least))
    if lower < known.least * (1 - NEAR) and time.monotonic() < deadline:
        known.add(*made.of_strips(deadline))
    gap = 1 - lower / known.least
    if gap > (ENOUGH if grid.cells <= FEW_CELLS else CLOSE) and time.monotonic() < deadline:
        counts = {int(c): int(n) for c, n in Counter(capacities.tolist()).items() if c}
        begun = [_profiles(grid, leafs, len(capacities)) for leafs in known.best(MOST_BEGUN)]
        every = [profile for capacity in counts for profile in every_profile(grid, capacity) or []]
        solution = solve(grid, counts, begun, every, deadline)
        lower = max(lower, solution.lower_bound)
        if solution.profiles is not None:
            known.add(_assignment(grid, capacities, solution.profiles))
    return known.best(1)[0], lower


class _Blocks:
    """Placements of blocks, and of blocks and strips."""

    def __init__(
        self, grid: Grid, capacities: Index, costs: npt.NDArray[np.float64], crossing: float
    ) -> None:
        """``costs``: the least of so many cells on a leaf. ``crossing``: of a placement, bytes."""
        self._grid, self._capacities, self._crossing = grid, capacities, crossing
        self._cells = capacities.tolist()
        self._worths = worths(grid, costs, self._cells)
        self._budget = EXCESS * crossing
        self._blocks = blocks(grid, self._worths, self._cells, self._budget)
        while len(self._blocks) < FEW_BLOCKS and self._budget < MOST_EXCESS * crossing:
            self._budget *= 2
            self._blocks = blocks(grid, self._worths, self._cells, self._budget)
        self._covered: list[Stack] = []

    def of_blocks(self, deadline: float) -> Iterator[Index]:
        """The best placement of blocks, if there is any."""
        yield from self._cover(self._blocks, deadline)

    def of_strips(self, deadline: float) -> Iterator[Index]:
        """The best placement of blocks and strips, from that of blocks on, if there is any."""
        more = strips(self._grid, self._worths, self._cells, EXCESS * self._crossing)
        yield from self._cover([*self._blocks[:MOST_BLOCKS], *more], deadline)

    def _cover(self, found: list[Block], deadline: float) -> Iterator[Index]:
        seconds = deadline - time.monotonic()
        covered = cover(self._grid, found, self._cells, self._crossing, seconds, self._covered)
        if covered is not None:
            self._covered = covered
            held = list(profiles(covered, self._grid.stages))
            yield _assignment(self._grid, self._capacities, held)


class _Known:
    """Assignments, those that cross least first."""

    def __init__(self, grid: Grid, leafs: Index) -> None:
        self._grid = grid
        crossing = crossing_bytes(grid, leafs)
        order = np.argsort(crossing, kind="stable")
        self._leafs, self._crossing = list(leafs[order]), crossing[order].tolist()

    @property
    def least(self) -> float:
        """Bytes that the best one crosses."""
        return float(self._crossing[0])

    def best(self, count: int) -> list[Index]:
        """The best ones."""
        return self._leafs[:count]

    def add(self, *more: Index) -> None:
        """Take some in; of equals the one that was there first goes first."""
        for leafs in more:
            crossing = float(crossing_bytes(self._grid, leafs[None])[0])
            at = bisect.bisect_right(self._crossing, crossing * (1 + EXACT))
            self._leafs.insert(at, leafs)
            self._crossing.insert(at, crossing)


def _profiles(grid: Grid, leafs: Index, count: int) -> list[Profile]:
    """The profiles of the leafs in an assignment."""
    table = np.zeros((count, grid.stages), dtype=np.int64)
    for stage in range(grid.stages):
        table[:, stage] = np.bincount(leafs[:, stage], minlength=count)
    return [tuple(int(cells) for cells in row) for row in table if row.any()]


def _assignment(grid: Grid, capacities: Index, profiles: Sequence[Profile]) -> Index:
    """Cells for the profiles: rows stay on their leaf from stage to stage wherever they can.

    The largest profile goes to the largest leaf.
    """
    largest = np.argsort(-capacities, kind="stable").tolist()
    ordered = sorted(profiles, key=lambda profile: (-sum(profile), profile))
    table: dict[int, Profile] = dict(zip(largest, ordered, strict=False))
    leafs = np.zeros((grid.rows, grid.stages), dtype=np.int64)
    for stage in range(grid.stages):
        left = Counter({leaf: profile[stage] for leaf, profile in table.items()})
        open_rows = []
        for row in range(grid.rows):
            before = int(leafs[row, stage - 1]) if stage else -1
            if left[before] > 0:
                leafs[row, stage] = before
                left[before] -= 1
            else:
                open_rows.append(row)
        rest = [leaf for leaf, cells in left.items() for _ in range(cells)]
        for row, leaf in zip(open_rows, rest, strict=True):
            leafs[row, stage] = leaf
    return leafs
