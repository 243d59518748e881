"""Splits near a split: where a search over splits begins, and its steps."""

from __future__ import annotations

import itertools

import numpy as np

from solver.partition.candidates import Cut

REACH = 4
"""Stages over which a block may be passed on in one move."""


def level_blocks(blocks: int, stages: int) -> tuple[Cut, ...]:
    """Every stage its share of the blocks, whatever they are."""
    edges = np.linspace(0, blocks, stages + 1).round().astype(int).tolist()
    return tuple(itertools.pairwise(edges))


def moved(cuts: tuple[Cut, ...]) -> list[tuple[Cut, ...]]:
    """Each cut moved by one block either way, and each block passed on over several stages."""
    edges = [0, *(stop for _, stop in cuts)]
    found = []
    for first in range(1, len(edges) - 1):
        for last in range(first, min(first + REACH, len(edges) - 1)):
            room = edges[first] - edges[first - 1], edges[last + 1] - edges[last]
            for step, left in zip((-1, 1), room, strict=True):
                if left > 1:
                    ends = list(edges)
                    for at in range(first, last + 1):
                        ends[at] += step
                    found.append(tuple(itertools.pairwise(ends)))
    return found
