"""Small stages with windows, exactly: sums over blocks that share windows with neighbours.

The Pareto sums of a run are those of the run without its last block, each joined with every choice
of that block whose own use of its windows leaves room for what the block before it placed there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Floats, Index
from solver.recompute.dominance import undominated_rows
from solver.recompute.fill import ROUNDING
from solver.recompute.placed import Link
from solver.recompute.placements import Placements

MOST_PAIRS = 200_000
"""Sums times choices beyond which a chain is not made longer."""

MOST_CHOICES = 80
"""Choices of a block beyond which no chain goes through it."""

MOST_SUMS = 2_000
"""Pareto sums of a chain beyond which it is not made longer."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The Pareto sums of one run; arrays of shape (sums,).

    ``working`` is the largest working memory of any block, ``rebuilt`` what all of them rebuild.
    ``early`` and ``lent`` are what the last block places in windows of the one that follows.
    ``first`` indexes the sums of the run without its last block, ``choice`` that block's choices.
    """

    kept: Floats
    seconds: Floats
    working: Floats
    rebuilt: Floats
    early: Floats
    lent: Floats
    first: Index
    choice: Index
    before: Chain | None

    def choices(self, at: int) -> list[int]:
        """The choice of every block behind one sum, in the order of the model."""
        found: list[int] = []
        chain: Chain | None = self
        while chain is not None and chain.before is not None:
            found.append(int(chain.choice[at]))
            at, chain = int(chain.first[at]), chain.before
        return found[::-1]


class Chains:
    """Chains of the blocks of one model, made once each.

    Args:
        costs: The blocks, for their windows and working bytes.
        choices: The placements of a block by its link; None where they are too many.
        gathers: Whether the sum of what is rebuilt counts among the costs.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        choices: Callable[[Link], Placements | None],
        window_seconds: Callable[[int], Floats],
        *,
        gathers: bool,
    ) -> None:
        self._working = [block.working_bytes for block in costs.blocks]
        self._choices, self._capacity, self._gathers = choices, window_seconds, gathers
        self._known: dict[tuple[tuple[int, ...], int | None], Chain | None] = {}

    def of(self, run: tuple[int, ...], following: int | None = None) -> Chain | None:
        """The sums of a run that this kind follows on its stage, or None if they are too many."""
        key = (run, following)
        if key not in self._known:
            self._known[key] = self._made(run, following)
        return self._known[key]

    def _made(self, run: tuple[int, ...], following: int | None) -> Chain | None:
        kind = run[-1]
        choices = self._choices((kind, following))
        if choices is None or len(choices.kept) > MOST_CHOICES:
            return None
        before = self.of(run[:-1], kind) if len(run) > 1 else _START
        if before is None or len(before.kept) * len(choices.kept) > MOST_PAIRS:
            return None
        first, choice = np.indices((len(before.kept), len(choices.kept)), dtype=np.int64)
        first, choice = first.ravel(), choice.ravel()
        if before.lent.shape[1]:
            used = before.lent[first] + choices.own[choice]
            room = (used <= self._capacity(kind) * (1 + ROUNDING)).all(axis=1)
            first, choice = first[room], choice[room]
        rebuilt = choices.rebuilt[choice]
        working = rebuilt + before.early[first] + self._working[kind]
        chain = Chain(
            kept=before.kept[first] + choices.kept[choice],
            seconds=before.seconds[first] + choices.seconds[choice],
            working=np.maximum(before.working[first], working),
            rebuilt=before.rebuilt[first] + rebuilt,
            early=choices.early[choice],
            lent=choices.following[choice],
            first=first,
            choice=choice,
            before=before,
        )
        return self._thinned(chain)

    def _thinned(self, chain: Chain) -> Chain | None:
        kept = chain.kept
        columns = [kept, chain.seconds, kept + chain.working]
        if self._gathers:
            columns.append(kept + chain.rebuilt)
        columns += [kept + chain.early, *chain.lent.T]
        rows = undominated_rows(np.stack(columns, axis=1))
        if len(rows) > MOST_SUMS:
            return None
        return Chain(
            kept=kept[rows],
            seconds=chain.seconds[rows],
            working=chain.working[rows],
            rebuilt=chain.rebuilt[rows],
            early=chain.early[rows],
            lent=chain.lent[rows],
            first=chain.first[rows],
            choice=chain.choice[rows],
            before=chain.before,
        )


_START = Chain(
    kept=np.zeros(1),
    seconds=np.zeros(1),
    working=np.zeros(1),
    rebuilt=np.zeros(1),
    early=np.zeros(1),
    lent=np.zeros((1, 0)),
    first=np.zeros(1, dtype=np.int64),
    choice=np.zeros(1, dtype=np.int64),
    before=None,
)
"""The sum over no block."""
