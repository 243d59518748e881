"""Blocks of neighbouring stages that a few leafs fill exactly, at little more than they cost least.

No leaf goes over the edge of a block, so blocks can stand in any order. In a block of any width
leafs fill rows of the whole width one after another; in those of two stages they may also lie askew
or on one stage only. Against the least that its cells cost anywhere (``least.py``) every leaf of a
block costs some more, and blocks are found in the order of that excess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations

from solver.placement.best_first import Fillings, Item
from solver.placement.grid import Grid, Profile, profile_cost

MOST_WIDTH = 12
MOST_BLOCKS = 300
"""Of one width and kind."""

MOST_STEPS = 3000
"""Of the search for blocks of one width and kind."""

MOST_ROWS_ASKEW = 80
"""Rows up to which leafs lie askew in blocks of two stages; tables grow with their square."""


MOST_MORE = 2
"""Leafs that are sought to go with one so that together they fill whole lines."""


@dataclass(frozen=True)
class Block:
    """Cells of every leaf in it on each of its stages, and how far they are above their worth.

    One of fewer rows than the grid is a strip, of which several make up a block.
    """

    profiles: tuple[Profile, ...]
    excess: float

    @property
    def width(self) -> int:
        """Stages."""
        return len(self.profiles[0])

    @property
    def height(self) -> int:
        """Rows."""
        return sum(profile[0] for profile in self.profiles)

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
                if block.excess > budget or not there(block.sizes, largest):
                    continue
                if key not in found:
                    new += 1
                if key not in found or found[key].excess > block.excess:
                    found[key] = block
                if new >= MOST_BLOCKS:
                    break
    return sorted(found.values(), key=lambda block: (block.excess, block.width, block.sizes))


def there(sizes: Sequence[int], largest: Sequence[int]) -> bool:
    """Whether there are leafs for these sizes; both in descending order."""
    return len(sizes) <= len(largest) and all(map(int.__le__, sizes, largest))


def _of_whole_rows(
    grid: Grid, width: int, worths: Mapping[int, float], budget: float
) -> Iterator[Block]:
    """Blocks that leafs fill row by row."""
    return filled(grid, grid.rows * width, width, partial(_run, width), worths, budget, MOST_STEPS)


def filled(
    grid: Grid,
    cells: int,
    line: int,
    run: Callable[[int, int], Profile],
    worths: Mapping[int, float],
    budget: float,
    steps: int,
) -> Iterator[Block]:
    """Blocks that leafs fill line by line, about in the order of their excess.

    Args:
        grid: The cells.
        cells: Of the block.
        line: Cells of a line.
        run: The profile of cells from one on, so many.
        worths: See ``blocks``.
        budget: Bytes.
        steps: Of the search.
    """
    sizes, items = [], []
    for size in sorted(worths, reverse=True):
        if size <= cells:
            excess = profile_cost(grid, run(0, size)) - worths[size]
            if excess <= budget:
                sizes.append(size)
                items.append(((size,), max(excess, 0.0)))
    if not items:
        return
    for _, taken in Fillings(items, cells).cheapest(budget, steps):
        start, profiles, excess = 0, [], 0.0
        for size in _in_lines(tuple(sizes[item] for item in taken), line):
            profiles.append(run(start, size))
            excess += profile_cost(grid, profiles[-1]) - worths[size]
            start += size
        yield Block(tuple(profiles), max(excess, 0.0))


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


def _run(width: int, start: int, size: int) -> Profile:
    """The profile of consecutive cells in rows of this width."""
    stop = start + size
    return tuple(
        (stop - stage + width - 1) // width - (start - stage + width - 1) // width
        for stage in range(width)
    )


def _in_lines(sizes: tuple[int, ...], line: int) -> list[int]:
    """An order of filling lines in which few leafs have both a line's end and the next one's start.

    Where cells beyond whole lines add up to whole lines, no leaf is broken; where only many of them
    do, to m lines, m - 1 of these leafs are.
    """
    left: dict[int, list[int]] = {}
    for size in sizes:
        left.setdefault(size % line, []).append(size)
    order = left.pop(0, [])
    groups = _groups(tuple(sorted(size % line for size in sizes if size % line)), line)
    return order + [left[rest].pop() for group in groups for rest in group]


@lru_cache(100_000)
def _groups(rests: tuple[int, ...], line: int) -> tuple[tuple[int, ...], ...]:
    """Rests in groups whose sums are multiples of the line: small ones, so that they are many."""
    if not rests:
        return ()
    first, others = rests[0], rests[1:]
    for more in range(1, min(len(others), MOST_MORE) + 1):
        for chosen in combinations(range(len(others)), more):
            group = (first, *(others[i] for i in chosen))
            if sum(group) % line == 0:
                left = tuple(rest for i, rest in enumerate(others) if i not in chosen)
                return (group, *_groups(left, line))
    return (rests,)
