"""Placements in which leafs fill blocks of the grid one after another, each block by whole leafs.

The grid is cut into blocks, chunks of neighbouring stages or strips of rows, and each block is
filled cell by cell, leaf after leaf: a chunk row by row, a strip stage by stage. A leaf that ends
with its block costs as little as its cells can in a block of that width; one that goes on into the
next costs more. So each block gets leafs whose cells add up to it, by subset sums, or as little
more as there is to spare.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from solver.placement.grid import Grid

Index = npt.NDArray[np.int64]

TRIES = 6
"""Orders in which leafs are offered to the blocks."""

MOST_SHAPES = 24
"""Widths of chunks, and heights of strips, that are tried."""

MOST_OFFERED = 2_000_000
"""Leafs offered to blocks, one by one, in all fillings together; some seconds."""


def fillings(grid: Grid, capacities: Sequence[int]) -> Iterator[Index]:
    """Leafs of every cell, shape (rows, stages), for several shapes of blocks and orders."""
    offered = list(_offered(grid, capacities))
    done = 0
    for position, sizes in _shapes(grid):
        for order in offered:
            done += len(order) * len(sizes)
            if done > MOST_OFFERED:
                return
            yield np.array(_sequence(order, capacities, sizes), dtype=np.int64)[position]


def _offered(grid: Grid, capacities: Sequence[int]) -> Iterator[list[int]]:
    """Leafs in several orders: as few as suffice, and where there are more some more."""
    largest = sorted(range(len(capacities)), key=lambda leaf: (-capacities[leaf], leaf))
    largest = [leaf for leaf in largest if capacities[leaf]]
    least = int(np.searchsorted(np.cumsum([capacities[leaf] for leaf in largest]), grid.cells)) + 1
    yield largest[:least]
    for attempt in range(1, TRIES):
        order = largest[: least + attempt % 3]
        random.Random(attempt).shuffle(order)
        yield order


def _shapes(grid: Grid) -> Iterator[tuple[Index, list[int]]]:
    """The turn at which each cell is filled, shape (rows, stages), and the cells of every block."""
    for width in _some(grid.stages):
        widths = [width] * (grid.stages // width) + [grid.stages % width] * (
            grid.stages % width > 0
        )
        yield _chunks(grid, widths)
    for height in _some(grid.rows):
        place = np.arange(grid.cells)
        row, stage = place // grid.stages, place % grid.stages
        strip, inner = row // height, row % height
        own = np.minimum(height, grid.rows - strip * height)
        turn = strip * height * grid.stages + stage * own + inner
        heights = [height] * (grid.rows // height) + [grid.rows % height] * (grid.rows % height > 0)
        yield turn.reshape(grid.rows, grid.stages), [each * grid.stages for each in heights]


def _some(most: int) -> list[int]:
    """Numbers from 1 to ``most``: the first ones, and then ever fewer."""
    found: list[int] = []
    step = 1.0
    while step < most + 0.5 and len(found) < MOST_SHAPES:
        found.append(round(step))
        step = max(step + 1, step * 1.25)
    return sorted({*found, most})


def _chunks(grid: Grid, widths: Sequence[int]) -> tuple[Index, list[int]]:
    """The turn of every cell where chunks of these widths are filled row by row; their sizes."""
    turns, before = [], 0
    for width in widths:
        cells = np.arange(grid.rows * width).reshape(grid.rows, width)
        turns.append(before + cells)
        before += grid.rows * width
    return np.concatenate(turns, axis=1), [grid.rows * width for width in widths]


def _sequence(order: list[int], capacities: Sequence[int], blocks: list[int]) -> list[int]:
    """The leafs in the order in which they fill the blocks, one entry a cell."""
    left = list(order)
    spare = sum(capacities[leaf] for leaf in left) - sum(blocks)
    found: list[int] = []
    carried: list[int] = []  # cells of a leaf that the block before had no room for
    for size in blocks:
        found += carried[:size]
        wanted, carried = size - len(carried[:size]), carried[size:]
        chosen, total = _adding_up(left, capacities, wanted, spare)
        taken = set(chosen)
        left = [leaf for leaf in left if leaf not in taken]
        cells = [leaf for leaf in chosen for _ in range(capacities[leaf])]
        found += cells[:wanted]
        if total - wanted <= spare:
            spare -= total - wanted
        else:
            carried += cells[wanted:]
    return found


def _adding_up(
    leafs: list[int], capacities: Sequence[int], wanted: int, spare: int
) -> tuple[list[int], int]:
    """Leafs whose cells add up to ``wanted``, or to as little more as can be; and to how much.

    Sums that can be had are the bits of whole numbers, one after every leaf. The largest leaf of
    those chosen comes first.
    """
    if wanted <= 0:
        return [], 0
    sums = [1]
    for leaf in leafs:
        sums.append(sums[-1] | sums[-1] << capacities[leaf])
    beyond = sums[-1] >> wanted
    if not beyond:
        raise ValueError("the leafs do not suffice")
    least = (beyond & -beyond).bit_length() - 1
    if least > spare:  # some leaf goes on into the next block: the largest ones, in order
        chosen, total = [], 0
        for leaf in leafs:
            if total < wanted:
                chosen.append(leaf)
                total += capacities[leaf]
        return chosen, total
    total = at = wanted + least
    chosen = []
    for number in range(len(leafs), 0, -1):
        if not sums[number - 1] >> at & 1:
            chosen.append(leafs[number - 1])
            at -= capacities[leafs[number - 1]]
    return sorted(chosen, key=lambda leaf: -capacities[leaf]), total
