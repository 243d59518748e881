"""All mixes of a run of few blocks, side by side: its cheapest one is a look-up.

Deep pipelines hold one or two layers on a stage. Of their mixes only those count that no other one
beats in kept bytes, working memory and time; each budget then picks among them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from solver.partition.menu import Floats, Index
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier

FEW_BLOCKS = 3
"""Blocks of a run up to which all its mixes are made."""

MOST = 2_000
"""Mixes beyond which they are not."""


@dataclass(frozen=True, eq=False)
class FewMixes:
    """The undominated mixes of a run, by ascending seconds; arrays have shape (mixes,).

    ``value`` is the place of the working memory among the values it can take. ``choices`` has shape
    (mixes, blocks): the choice of every block, blocks of a kind together; ``kinds`` says of which.
    """

    kept: Floats
    seconds: Floats
    value: Index
    choices: Index
    kinds: tuple[int, ...]

    def parts(self, at: int) -> tuple[tuple[int, int, int], ...]:
        """(kind, choice, count) of one mix."""
        taken = list(zip(self.kinds, self.choices[at].tolist(), strict=True))
        return tuple((*each, len(list(same))) for each, same in itertools.groupby(sorted(taken)))


def are_few(counts: tuple[int, ...], frontiers: tuple[Frontier, ...]) -> bool:
    """Whether all mixes of a run of these counts are made."""
    if sum(counts) > FEW_BLOCKS:
        return False
    many = math.prod(
        math.comb(count + len(front.kept) - 1, count)
        for count, front in zip(counts, frontiers, strict=True)
        if count  # of a kind that a run has none of no choice need be left
    )
    return 0 < many <= MOST


def few_mixes(
    counts: tuple[int, ...], frontiers: tuple[Frontier, ...], entry: list[Index]
) -> FewMixes:
    """All undominated mixes of a run of these counts.

    ``entry`` holds, per kind, the place of the working memory at which each choice comes in.
    """
    kept, seconds = np.zeros(1), np.zeros(1)
    value = np.zeros(1, dtype=np.int64)
    choices = np.zeros((1, 0), dtype=np.int64)
    for kind, count in enumerate(counts):
        if not count:
            continue
        front = frontiers[kind]
        every = itertools.combinations_with_replacement(range(len(front.kept)), count)
        more = np.array(list(every), dtype=np.int64)
        one, other = (part.ravel() for part in np.indices((len(kept), len(more))))
        kept = kept[one] + front.kept[more].sum(axis=1)[other]
        seconds = seconds[one] + front.seconds[more].sum(axis=1)[other]
        value = np.maximum(value[one], entry[kind][more].max(axis=1)[other])
        choices = np.concatenate([choices[one], more[other]], axis=1)
    rows = undominated_rows(np.stack([kept, seconds, value.astype(np.float64)], axis=1))
    rows = rows[np.lexsort((kept[rows], seconds[rows]))]
    kinds = tuple(kind for kind, count in enumerate(counts) for _ in range(count))
    return FewMixes(kept[rows], seconds[rows], value[rows], choices[rows], kinds)
