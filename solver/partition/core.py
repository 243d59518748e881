"""The core of a mix: deciding exactly among the few choices that can still matter.

Given a price, every kind has a base choice of no reduced cost; a mix is the base plus *moves*, each
taking one block to another choice. A mix costs bound + its reduced costs + price x memory left, so
only mixes whose reduced costs stay below the distance between a known mix and the bound can be
better (Pisinger 1995, "A minimal algorithm for the multiple-choice knapsack problem", uses the same
core). Few such mixes are enumerated; many are summed up block by block, keeping of all sums only
those that no other beats in both memory and time (``sums.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver.partition.menu import Floats, Index, Mix
from solver.partition.sums import best_total

ROUNDING = 1e-12
"""Relative slack of a memory comparison: sums of the same bytes in another order count as equal."""

PRECISE = 1e-9
"""Relative distance to the bound at which a mix counts as optimal."""

FIRST_MOVES = 24
"""Moves per kind among which a first mix is looked for."""

MOST_NODES = 40
"""Enumerated mixes beyond which summing up is quicker."""


class _Move(NamedTuple):
    """Taking one block of a kind from its base choice to another one."""

    reduced: float
    kind: int
    choice: int
    kept: float
    seconds: float


_Taken = tuple[_Move, int, "_Taken"] | None
"""Moves and how often each is taken, as a chain."""


@dataclass(frozen=True, eq=False)
class _Kind:
    """A kind's blocks, its choices, and its base: the least kept one of no reduced cost."""

    kind: int
    count: int
    choices: Index
    kept: Floats
    seconds: Floats
    reduced: Floats
    base: int

    def moves(self, limit: float) -> list[_Move]:
        """Moves from the base whose reduced cost stays below a limit."""
        near = self.reduced < limit
        near[self.base] = False
        rows = np.flatnonzero(near)
        columns = (
            self.reduced[rows],
            self.choices[rows],
            self.kept[rows] - self.kept[self.base],
            self.seconds[rows] - self.seconds[self.base],
        )
        return [
            _Move(reduced, self.kind, choice, kept, seconds)
            for reduced, choice, kept, seconds in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]


class Core:
    """One knapsack: base choices, and moves away from them.

    Args:
        width: Kept bytes per micro-batch that fit.
        bound: The Lagrangian bound.
    """

    def __init__(self, width: float, bound: float) -> None:
        self._room = width
        self._bound = bound
        self._kinds: list[_Kind] = []
        self._base_seconds = 0.0
        self._left: dict[int, int] = {}
        self._moves: list[_Move] = []
        self._best = math.inf
        self._limit = math.inf  # reduced costs that a better mix must stay below
        self._taken: _Taken = None
        self._found = False
        self._nodes = 0

    def add(
        self,
        kind: int,
        count: int,
        choices: Index,
        kept: Floats,
        seconds: Floats,
        reduced: Floats,
    ) -> None:
        """Enter a kind: its number of blocks, and its choices by ascending kept bytes."""
        scale = max(float(seconds.max()), 1e-300)
        base = int((reduced <= scale * ROUNDING).argmax())
        self._kinds.append(_Kind(kind, count, choices, kept, seconds, reduced, base))
        self._left[kind] = count
        self._base_seconds += count * float(seconds[base])
        self._room -= count * float(kept[base])

    def solve(self, known: float) -> Mix | None:
        """The best mix, or None if none is better than one of ``known`` seconds.

        Its bound is below it only where even summing up had to stop.
        """
        self._improve_to(known)
        if not math.isfinite(known):
            self._greedy()
        # Moves of high reduced cost first: they are few, and the cheap ones fill what is left.
        self._moves = sorted(
            (move for kind in self._kinds for move in kind.moves(self._limit)),
            key=lambda move: (-move.reduced, move.kind, move.choice),
        )
        self._descend(0, self._room, self._base_seconds, 0.0, None)
        finished = self._nodes <= MOST_NODES or self._sum_up()
        if not self._found:
            return None
        return Mix(self._best, self._best if finished else self._bound, self._parts())

    def _sum_up(self) -> bool:
        """Decide by sums over blocks; whether that came to its end."""
        moves = [move for move in self._moves if move.reduced < self._best - self._bound]
        kinds = []
        for kind, count in self._left.items():
            mine = [move for move in moves if move.kind == kind]
            table = [(0.0, 0.0, 0.0), *((m.kept, m.seconds, m.reduced) for m in mine)]
            kinds.append((count, np.array(table)))
        found = best_total(kinds, self._room, self._best - self._bound)
        if found is None:
            return False
        seconds, counts = found
        taken: _Taken = None
        for kind, picked in zip(self._left, counts, strict=True):
            mine = [move for move in moves if move.kind == kind]
            for move, times in zip(mine, picked[1:], strict=True):
                if times:
                    taken = (move, times, taken)
        self._record(self._base_seconds + seconds, taken)
        return True

    def _improve_to(self, seconds: float) -> None:
        self._best = max(seconds, 0.0)
        if math.isfinite(seconds):
            self._limit = self._best * (1 - PRECISE) - self._bound

    def _greedy(self) -> None:
        """A first mix: take the moves that save time in order of reduced cost, as they fit."""
        room, seconds = self._room, self._base_seconds
        left = dict(self._left)
        taken: _Taken = None
        for move in self._first_moves():
            fits = left[move.kind] if move.kept <= 0 else int(max(room, 0.0) // move.kept)
            times = min(left[move.kind], fits)
            if times:
                taken = (move, times, taken)
                room -= times * move.kept
                seconds += times * move.seconds
                left[move.kind] -= times
        if room >= 0:  # the base fits whenever the price is right; rounding may say otherwise
            self._record(seconds, taken)

    def _first_moves(self) -> list[_Move]:
        """Of each kind, the moves of least reduced cost that save time."""
        found = []
        for kind in self._kinds:
            saving = np.flatnonzero(kind.seconds < kind.seconds[kind.base])
            if len(saving):
                few = kind.reduced[saving]
                limit = np.partition(few, FIRST_MOVES)[FIRST_MOVES] if len(few) > FIRST_MOVES else 0
                found += kind.moves(float(limit) if limit else math.inf)
        return sorted(
            (move for move in found if move.seconds < 0),
            key=lambda move: (move.reduced, move.seconds, move.kind, move.choice),
        )

    def _record(self, seconds: float, taken: _Taken) -> None:
        if seconds < self._best:
            self._improve_to(seconds)
            self._taken, self._found = taken, True

    def _descend(
        self, depth: int, room: float, seconds: float, reduced: float, taken: _Taken
    ) -> None:
        """Try every count of the move at ``depth``; the reduced costs taken so far bound it."""
        self._nodes += 1
        if self._nodes > MOST_NODES or reduced >= self._limit:
            return
        if depth == len(self._moves):
            if room >= 0:
                self._record(seconds, taken)
            return
        move = self._moves[depth]
        left = self._left[move.kind]
        if depth == len(self._moves) - 1:
            times = _fill(move, left, room)
            if room - times * move.kept >= 0:
                extra = (move, times, taken) if times else taken
                self._record(seconds + times * move.seconds, extra)
            return
        for times in range(left + 1):
            if reduced + times * move.reduced >= self._limit:
                break
            self._left[move.kind] = left - times
            self._descend(
                depth + 1,
                room - times * move.kept,
                seconds + times * move.seconds,
                reduced + times * move.reduced,
                (move, times, taken) if times else taken,
            )
        self._left[move.kind] = left

    def _parts(self) -> tuple[tuple[int, int, int], ...]:
        left = dict(self._left)
        parts = []
        taken = self._taken
        while taken is not None:
            move, times, taken = taken
            parts.append((move.kind, move.choice, times))
            left[move.kind] -= times
        base = {kind.kind: int(kind.choices[kind.base]) for kind in self._kinds}
        parts += [(kind, base[kind], count) for kind, count in left.items() if count]
        return tuple(sorted(parts))


def _fill(move: _Move, left: int, room: float) -> int:
    """How often the last move is best taken."""
    if move.kept > 0:
        return min(left, int(max(room, 0.0) // move.kept)) if move.seconds < 0 else 0
    if move.seconds < 0:
        return left
    return min(left, math.ceil(room / move.kept)) if room < 0 and move.kept < 0 else 0
