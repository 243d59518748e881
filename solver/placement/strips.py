"""Blocks of strips: a few rows high each, filled by leafs of their own, one strip upon another.

In a strip leafs lie side by side, where in the blocks of ``blocks.py`` they lie upon each other; so
there is a way to use leafs whose cells suit one height and not one width. Strips of equal width and
height may change places, so a block is but a stack of heights, and strips are counted, not placed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from solver.placement.best_first import Fillings
from solver.placement.blocks import MOST_WIDTH, Block, filled, there
from solver.placement.grid import Grid, Profile

MOST_STRIPS = 25
"""Of one width and height."""

MOST_LEAFS = 4
"""Of a strip, about."""

MOST_STEPS = 150
"""Of the search for strips of one width and height."""

MOST_STACKS = 30
"""Of one width."""


def strips(
    grid: Grid, worths: Mapping[int, float], capacities: Sequence[int], budget: float
) -> list[Block]:
    """Strips lower than the grid, by width and height those of least excess; see ``blocks``."""
    largest = sorted(capacities, reverse=True)
    found: list[Block] = []
    for width in range(2, min(grid.stages, MOST_WIDTH) + 1):
        for height in range(1, grid.rows):
            if width * height > MOST_LEAFS * largest[0]:
                break
            run = partial(_run, width, height)
            kept: dict[tuple[int, ...], Block] = {}
            for strip in filled(grid, width * height, height, run, worths, budget, MOST_STEPS):
                if strip.excess <= budget and there(strip.sizes, largest):
                    kept.setdefault(strip.sizes, strip)
                if len(kept) >= MOST_STRIPS:
                    break
            found += kept.values()
    return found


def stacks(grid: Grid, found: Sequence[Block]) -> list[tuple[int, tuple[int, ...]]]:
    """Widths, and heights of strips that make up a block of the width; those of least excess."""
    least: dict[int, dict[int, float]] = {}
    for strip in found:
        of_width = least.setdefault(strip.width, {})
        of_width[strip.height] = min(strip.excess, of_width.get(strip.height, strip.excess))
    stacked = []
    for width, heights in sorted(least.items()):
        items = [((height,), excess) for height, excess in sorted(heights.items())]
        for number, (_, taken) in enumerate(Fillings(items, grid.rows).cheapest(math.inf, 1000)):
            if number >= MOST_STACKS:
                break
            stacked.append((width, tuple(items[item][0][0] for item in taken)))
    return stacked


def _run(width: int, height: int, start: int, size: int) -> Profile:
    """The profile of consecutive cells of a strip that is filled stage by stage."""
    return tuple(
        max(0, min(start + size, (stage + 1) * height) - max(start, stage * height))
        for stage in range(width)
    )
