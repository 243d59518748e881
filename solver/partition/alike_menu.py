"""One choice per stage: all blocks of a kind on a stage keep and recompute the same tensors.

With N[k] blocks of kind k, in-flight f and choice c[k] for each kind, a stage takes
``sum N[k] seconds[c[k]]`` for ``states + f sum N[k] kept[c[k]] + max over k of (rebuilt[c[k]] +
working[k]) + reserved``. The sums over kinds are tabulated once for each signature, kind after
kind, and of them only those kept that no other may replace: p may replace q where it takes no more
seconds, keeps no more, and kept + buffer is no more (f >= 1, as in ``recompute/frontier.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.core import ROUNDING
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.recompute.frontier import Frontier, undominated

MOST_COMBINATIONS = 50_000
"""Choices of all kinds together beyond which they are not tabulated."""


def combinations(frontiers: tuple[Frontier, ...]) -> int:
    """How many choices of one per kind there are."""
    return math.prod(len(front.choices) for front in frontiers)


@dataclass(frozen=True, eq=False)
class _Table:
    """The sums of one signature: kept, seconds and buffer (rows, 3), and the choices behind."""

    sums: Floats
    chosen: Index
    kinds: tuple[int, ...]


class AlikeMenu(Menu):
    """A choice for every kind of block on a stage.

    Args:
        costs: The blocks (for their working bytes), capacity and reserved bytes.
        frontiers: One frontier per block kind.

    Raises:
        BadRequest: Their choices make more than ``MOST_COMBINATIONS`` together.
    """

    def __init__(self, costs: PipelineCosts, frontiers: tuple[Frontier, ...]) -> None:
        if combinations(frontiers) > MOST_COMBINATIONS:
            raise BadRequest(
                "The kinds of block of this model have too many choices to be tabulated together.",
                field="recompute.choice_per",
                hint="Leave it out: every block then chooses for itself.",
            )
        self._frontiers = frontiers
        self._working = [block.working_bytes for block in costs.blocks]
        self._reserved = costs.reserved_bytes
        self._budget = (costs.capacity_bytes - costs.reserved_bytes) * (1 + ROUNDING)
        self._tables: dict[tuple[int, ...], _Table] = {}
        self._known: dict[tuple[tuple[int, ...], float, int], Mix | None] = {}

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The exact least seconds."""
        found = []
        for row, state, flight in zip(
            counts.tolist(), states.tolist(), in_flight.tolist(), strict=True
        ):
            mix = self.cheapest(tuple(row), state, flight)
            found.append(math.inf if mix is None else mix.seconds)
        return np.array(found)

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest choice per kind that fits, or None."""
        key = (counts, states, in_flight)
        if key not in self._known:
            self._known[key] = self._cheapest(counts, states, in_flight)
        return self._known[key]

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix."""
        return tuple(
            Part(kind, self._frontiers[kind].choices[choice], count)
            for kind, choice, count in mix.parts
        )

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The least over all choices."""
        tables = [self._table(tuple(row)).sums for row in counts.tolist()]
        held = [[(flight * t[:, 0] + t[:, 2]).min() for t in tables] for flight in in_flight]
        return np.asarray(np.array(held) + states + self._reserved)

    def slowest(self, counts: Index) -> Floats:
        """Every kind at its slowest choice."""
        return np.asarray(counts @ np.array([front.seconds.max() for front in self._frontiers]))

    def _cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        table = self._table(counts)
        kept, seconds, buffer = table.sums.T
        fits = states + in_flight * kept + buffer <= self._budget
        if not fits.any():
            return None
        at = int(np.where(fits, seconds, math.inf).argmin())
        chosen = table.chosen[at].tolist()
        parts = tuple(
            (kind, choice, counts[kind]) for kind, choice in zip(table.kinds, chosen, strict=True)
        )
        return Mix(float(seconds[at]), float(seconds[at]), parts)

    def _table(self, counts: tuple[int, ...]) -> _Table:
        if counts not in self._tables:
            self._tables[counts] = self._tabulate(counts)
        return self._tables[counts]

    def _tabulate(self, counts: tuple[int, ...]) -> _Table:
        kinds = tuple(kind for kind, count in enumerate(counts) if count)
        sums, chosen = np.zeros((1, 3)), np.zeros((1, 0), dtype=np.int64)
        for kind in kinds:
            front, count = self._frontiers[kind], counts[kind]
            here = np.stack(
                [count * front.kept, count * front.seconds, front.rebuilt + self._working[kind]],
                axis=1,
            )
            grown = sums[:, None] + here
            grown[:, :, 2] = np.maximum(sums[:, None, 2], here[None, :, 2])
            rows = np.stack(
                np.broadcast_arrays(np.arange(len(sums))[:, None], np.arange(len(here))), axis=-1
            ).reshape(-1, 2)
            flat = grown.reshape(-1, 3)
            left = undominated(flat)
            sums = flat[left]
            before, choice = rows[left].T
            chosen = np.concatenate([chosen[before], choice[:, None]], axis=1)
        return _Table(sums, chosen, kinds)
