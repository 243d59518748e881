"""Placements made of blocks and strips: which of them cover all cells and cross least.

An integer program over those at hand. Widths of blocks add up to the stages; of every width and
height there are as many strips as stacks have; and leafs are there. A larger leaf does for a
smaller one, so it suffices that of every capacity and above there are as many as are taken.
"""

from __future__ import annotations

import bisect
import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ortools.linear_solver import pywraplp

from solver.placement.blocks import Block
from solver.placement.grid import Grid, Profile, profile_cost
from solver.placement.strips import stacks

Stack = tuple[Block, ...]
"""A block of the grid's height, or strips of one width that together have it."""

WORK, WORK_AGAIN = 0.4, 0.2
"""What the program may take, first and from a cover on, in the solver's own measure of its work: no
clock, so the same answer always; about a second, and half of it."""

GOOD = 0.002
"""Relative distance to the program's own bound at which it ends."""


def cover(
    grid: Grid,
    found: Sequence[Block],
    capacities: Sequence[int],
    scale: float,
    seconds: float,
    begun: Sequence[Stack] = (),
) -> list[Stack] | None:
    """Stacks that stand side by side, or None where what is at hand does not cover the grid.

    Args:
        grid: The cells.
        found: Blocks and strips.
        capacities: Cells of every leaf.
        scale: About what a placement crosses, bytes.
        seconds: Wall time that there is, should the work take longer.
        begun: A cover that is known, of blocks of the grid's whole height.
    """
    program = _Program(grid, capacities, scale, WORK_AGAIN if begun else WORK)
    taken = Counter(block for stack in begun for block in stack)
    for block in found:
        program.take(block, taken[block])
    for width, heights in stacks(grid, [block for block in found if block.height < grid.rows]):
        program.stack(width, heights)
    return program.solved(seconds)


def profiles(side_by_side: Sequence[Stack], stages: int) -> Iterator[Profile]:
    """What leafs hold on all stages."""
    first = 0
    for stack in side_by_side:
        after = stages - first - stack[0].width
        for block in stack:
            for profile in block.profiles:
                yield (0,) * first + profile + (0,) * after
        first += stack[0].width


class _Program:
    """The integer program. ``_strips``: the amounts of strips by width and height."""

    def __init__(self, grid: Grid, capacities: Sequence[int], scale: float, work: float) -> None:
        self._grid, self._scale = grid, scale
        self._solver = pywraplp.Solver.CreateSolver("SAT")
        self._solver.SetSolverSpecificParametersAsString(
            "num_workers: 1 random_seed: 0 "
            f"max_deterministic_time: {work} relative_gap_limit: {GOOD}"
        )
        self._objective = self._solver.Objective()
        self._objective.SetMinimization()
        self._objective.SetOffset(-grid.edge_bytes * grid.rows / scale)
        self._stages = self._solver.Constraint(grid.stages, grid.stages)
        there = sorted({capacity for capacity in capacities if capacity})
        self._leafs = [
            (below, self._solver.Constraint(0, sum(each > below for each in capacities)))
            for below in (0, *there[:-1])
        ]
        self._taken: list[tuple[Block, Any]] = []
        self._stacked: list[tuple[int, tuple[int, ...], Any]] = []
        self._strips: dict[tuple[int, int], Any] = {}
        self._hints: list[tuple[Any, int]] = []

    def take(self, block: Block, begun: int) -> None:
        """A block or strip that can be used any number of times, and is so often at the start."""
        grid = self._grid
        cells = block.width * block.height
        amount = self._solver.IntVar(0, grid.cells // cells, "")
        cost = grid.edge_bytes * cells + sum(profile_cost(grid, each) for each in block.profiles)
        self._objective.SetCoefficient(amount, cost / self._scale)
        sizes = block.sizes
        for below, row in self._leafs:
            if sizes[0] <= below:
                break
            row.SetCoefficient(amount, bisect.bisect_left(sizes, -below, key=operator.neg))
        if block.height == grid.rows:
            self._stages.SetCoefficient(amount, block.width)
        else:
            self._strip(block.width, block.height).SetCoefficient(amount, 1)
        self._taken.append((block, amount))
        self._hints.append((amount, begun))

    def stack(self, width: int, heights: tuple[int, ...]) -> None:
        """Strips of a width that can make up a block."""
        amount = self._solver.IntVar(0, self._grid.stages // width, "")
        self._stages.SetCoefficient(amount, width)
        for height in set(heights):
            self._strip(width, height).SetCoefficient(amount, -heights.count(height))
        self._stacked.append((width, heights, amount))
        self._hints.append((amount, 0))

    def _strip(self, width: int, height: int) -> Any:
        if (width, height) not in self._strips:
            self._strips[width, height] = self._solver.Constraint(0, 0)
        return self._strips[width, height]

    def solved(self, seconds: float) -> list[Stack] | None:
        """The stacks taken."""
        self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
        if any(begun for _, begun in self._hints):
            self._solver.SetHint([each for each, _ in self._hints], [n for _, n in self._hints])
        if self._solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
            return None
        strips: dict[tuple[int, int], list[Block]] = defaultdict(list)
        side_by_side: list[Stack] = []
        for block, amount in self._taken:
            for _ in range(round(amount.solution_value())):
                if block.height == self._grid.rows:
                    side_by_side.append((block,))
                else:
                    strips[block.width, block.height].append(block)
        for width, heights, amount in self._stacked:
            for _ in range(round(amount.solution_value())):
                stack = tuple(strips[width, height].pop() for height in heights)
                side_by_side.append(stack)
        return side_by_side
