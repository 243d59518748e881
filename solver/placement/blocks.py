"""Blocks of neighbouring stages that a few leafs fill exactly, at little more than they cost least.

No leaf goes over the edge of a block, so blocks can stand in any order. In a block of any width
leafs fill rows of the whole width one after another; in those of two stages they may also lie askew
or on one stage only. Against the least that its cells cost anywhere (``least.py``) every leaf of a
block costs some more, and blocks are found in the order of that excess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from solver.placement.best_first import Fillings, Item
from solver.placement.grid import Grid, Profile, profile_cost

MOST_WIDTH = 12
MOST_BLOCKS = 400
"""Of one width and kind."""

MOST_STEPS = 6000
"""Of the search for blocks of one width and kind."""

MOST_ROWS_ASKEW = 80
"""Rows up to which leafs lie askew in blocks of two stages; tables grow with their square."""


@dataclass(frozen=True)
class Block:
    """Cells of every leaf in it on each of its stages, and how far it is above its worth."""

    profiles: tuple[Profile, ...]
    excess: float

    @property
    def width(self) -> int:
        """Stages."""
        return len(self.profiles[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of every leaf, the largest first."""
        return tuple(sorted(map(sum, self.profiles), reverse=True))


def blocks(
    grid: Grid, worths: Mapping[int, float], capacities: Sequence[int], budget: float
) -> list[Block]:
    """Blocks whose excess is within the budget, by width the cheapest.

    Args:
        grid: The cells.
        worths: By the number of cells that a leaf may hold: the least that they cost, bytes.
        capacities: Cells of every leaf.
        budget: Bytes.
    """
    largest = sorted(capacities, reverse=True)
    found: dict[tuple[int, tuple[int, ...]], Block] = {}
    for width in range(1, min(grid.stages, MOST_WIDTH) + 1):
        kinds = [_of_whole_rows(grid, width, worths, budget)]
        if width == 2 and grid.rows <= MOST_ROWS_ASKEW:
            kinds.append(_askew(grid, worths, budget))
        for kind in kinds:
            new = 0
            for block in kind:
                key = block.width, block.sizes
                if block.excess > budget or not _there(block.sizes, largest):
                    continue
                if key not in found:
                    new += 1
                if key not in found or found[key].excess > block.excess:
                    found[key] = block
                if new >= MOST_BLOCKS:
                    break
    return sorted(found.values(), key=lambda block: (block.excess, block.width, block.sizes))


def _there(sizes: Sequence[int], largest: Sequence[int]) -> bool:
    """Whether there are leafs for these sizes; both in descending order."""
    return len(sizes) <= len(largest) and all(map(int.__le__, sizes, largest))


def _of_whole_rows(
    grid: Grid, width: int, worths: Mapping[int, float], budget: float
) -> Iterator[Block]:
    """Blocks that leafs fill row by row."""
    sizes, items = [], []
    for size in sorted(worths, reverse=True):
        if size <= grid.rows * width:
            excess = profile_cost(grid, _run(0, size, width)) - worths[size]
            if excess <= budget:
                sizes.append(size)
                items.append(((size,), max(excess, 0.0)))
    if not items:
        return
    for excess, taken in Fillings(items, grid.rows * width).cheapest(budget, MOST_STEPS):
        order, breaks = _in_rows(tuple(sizes[item] for item in taken), width)
        start, profiles = 0, []
        for size in order:
            profiles.append(_run(start, size, width))
            start += size
        yield Block(tuple(profiles), excess + breaks * grid.edge_bytes)


def _askew(grid: Grid, worths: Mapping[int, float], budget: float) -> Iterator[Block]:
    """Blocks of two stages on which every leaf has cells as it may."""
    items: list[Item] = []
    for size in sorted(worths, reverse=True):
        for here in range(max(0, size - grid.rows), min(size, grid.rows) + 1):
            profile = (here, size - here)
            excess = profile_cost(grid, profile) - worths[size]
            if excess <= budget:
                items.append((profile, max(excess, 0.0)))
    if not items:
        return
    for excess, taken in Fillings(items, grid.rows).cheapest(budget, MOST_STEPS):
        yield Block(tuple(items[item][0] for item in taken), excess)


def _run(start: int, size: int, width: int) -> Profile:
    """The profile of consecutive cells in rows of this width."""
    stop = start + size
    return tuple(
        (stop - stage + width - 1) // width - (start - stage + width - 1) // width
        for stage in range(width)
    )


def _in_rows(sizes: tuple[int, ...], width: int) -> tuple[list[int], int]:
    """An order of filling rows in which few leafs have both a row's end and the next one's start.

    Where cells beyond whole rows add up to whole rows, nothing is broken; where only many of them
    do, to m rows, m - 1 of these leafs are. Returns the sizes in order and how many are broken.
    """
    left: dict[int, list[int]] = {}
    for size in sizes:
        left.setdefault(size % width, []).append(size)
    order = left.pop(0, [])
    groups = _groups(tuple(sorted(size % width for size in sizes if size % width)), width)
    order += [left[rest].pop() for group in groups for rest in group]
    return order, sum(sum(group) // width - 1 for group in groups)


@lru_cache(100_000)
def _groups(rests: tuple[int, ...], width: int) -> tuple[tuple[int, ...], ...]:
    """Rests in groups whose sums are multiples of the width: small ones, so that they are many."""
    if not rests:
        return ()
    first, others = rests[0], rests[1:]
    for more in range(1, len(others) + 1):
        for chosen in combinations(range(len(others)), more):
            group = (first, *(others[i] for i in chosen))
            if sum(group) % width == 0:
                left = tuple(rest for i, rest in enumerate(others) if i not in chosen)
                return (group, *_groups(left, width))
    raise ValueError("the rests do not add up to whole rows")
