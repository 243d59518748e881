"""All mixes of a run of few blocks, side by side: its cheapest one is a look-up.

Deep pipelines hold one or two layers on a stage. Of their mixes only those count that no other one
beats in kept bytes, working memory and time; each budget then picks among them. They are made block
by block, and what is beaten is left out early: what beats a mix of some blocks still beats it with
the same blocks added to both. Of very many mixes some that are beaten stay; that is quicker.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.partition.menu import Floats, Index
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier

FEW_BLOCKS = 3
"""Blocks with something to choose of a run up to which all its mixes are made."""

FEW = 2_000
"""Mixes up to which it is no work to speak of."""

MANY = 300_000
"""Mixes beyond which they are not made."""

SIFTED = 12_000
"""Mixes up to which each is compared with every other."""

GROUPS = 48
"""Parts, by working memory, that very many mixes are compared in."""


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

    @cached_property
    def values(self) -> tuple[Index, Index]:
        """The different ones of ``value``, and which of them each is."""
        places, which = np.unique(self.value, return_inverse=True)
        return places, which.ravel()

    def parts(self, at: int) -> tuple[tuple[int, int, int], ...]:
        """(kind, choice, count) of one mix."""
        taken = list(zip(self.kinds, self.choices[at].tolist(), strict=True))
        return tuple((*each, len(list(same))) for each, same in itertools.groupby(sorted(taken)))


def few_mixes(
    counts: tuple[int, ...],
    frontiers: Sequence[Frontier],
    entry: Sequence[Index],
    most: int = MANY,
) -> FewMixes | None:
    """All undominated mixes of a run of these counts; None if they are too many, or there are none.

    ``entry`` holds, per kind, the place of the working memory at which each choice comes in;
    ``most`` is how many mixes may stand beside one another.
    """
    kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
    kinds.sort(key=lambda kind: (len(frontiers[kind].kept), kind))
    if sum(len(frontiers[kind].kept) > 1 for kind in kinds) > FEW_BLOCKS:
        return None
    fixed = sum(len(frontiers[kind].kept) == 1 for kind in kinds)
    kept, seconds = np.zeros(1), np.zeros(1)
    value = np.zeros(1, dtype=np.int64)
    choices = np.zeros((1, 0), dtype=np.int64)
    for at, kind in enumerate(kinds):
        front = frontiers[kind]
        if not 0 < len(kept) * len(front.kept) <= most:
            return None
        one, other = (part.ravel() for part in np.indices((len(kept), len(front.kept))))
        if at == fixed + 1 and kinds[fixed] == kind:  # pairs in one order only
            upwards = choices[one, fixed] <= other
            one, other = one[upwards], other[upwards]
        kept = kept[one] + front.kept[other]
        seconds = seconds[one] + front.seconds[other]
        value = np.maximum(value[one], entry[kind][other])
        choices = np.concatenate([choices[one], other[:, None]], axis=1)
        rows = _unbeaten(kept, seconds, value)
        kept, seconds, value, choices = kept[rows], seconds[rows], value[rows], choices[rows]
    order = np.lexsort((kept, seconds))
    return FewMixes(kept[order], seconds[order], value[order], choices[order], tuple(kinds))


def _unbeaten(kept: Floats, seconds: Floats, value: Index) -> Index:
    """Rows that no other is at most in all three; of very many, a few more.

    Those are compared with the rows of the groups before theirs only, which stand as a staircase,
    ascending in bytes and descending in seconds.
    """
    if len(kept) <= SIFTED:
        return undominated_rows(np.stack([kept, seconds, value.astype(np.float64)], axis=1))
    order = np.argsort(value, kind="stable")
    ends = np.flatnonzero(np.diff(value[order], append=-1)) + 1
    wanted = np.linspace(0, len(order), GROUPS + 1)[1:]
    stops = np.unique(ends[np.searchsorted(ends, wanted.astype(int))])
    across, down = np.zeros(0), np.zeros(0)
    unbeaten: list[Index] = []
    for start, stop in itertools.pairwise([0, *stops.tolist()]):
        rows = order[start:stop]
        if len(across):
            before = np.searchsorted(across, kept[rows], side="right") - 1
            rows = rows[(before < 0) | (down[before] > seconds[rows])]
        unbeaten.append(rows)
        across, down = np.append(across, kept[rows]), np.append(down, seconds[rows])
        steps = np.lexsort((down, across))
        falls = np.minimum.accumulate(down[steps])
        steps = steps[np.diff(falls, prepend=np.inf) < 0]
        across, down = across[steps], down[steps]
    return np.concatenate(unbeaten)
