"""Menus of framework policies that count layers on a stage: ``block`` and ``uniform``.

Such a policy leaves nothing to choose: a stage's recompute time and memory follow from its blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Floats, Index, Menu, Mix, Part

Rule = Callable[[tuple[int, ...]], tuple[Part, ...]]
"""From the blocks of each kind on a stage to what each of them does."""


class RuledMenu(Menu):
    """What one rule makes of every run of blocks."""

    def __init__(self, costs: PipelineCosts, rule: Rule) -> None:
        self._costs = costs
        self._rule = rule
        self._by_mix: dict[Mix, tuple[Part, ...]] = {}

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The rule's own seconds where it fits."""
        found = []
        for row, state, flight in zip(
            counts.tolist(), states.tolist(), in_flight.tolist(), strict=True
        ):
            mix = self.cheapest(tuple(row), state, flight)
            found.append(math.inf if mix is None else mix.seconds)
        return np.array(found)

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The rule's mix, or None if it does not fit."""
        parts = self._rule(counts)
        if self._bytes(parts, states, in_flight) > self._limit:
            return None
        seconds = self._seconds(parts)
        mix = Mix(
            seconds, seconds, tuple((p.kind, int(p.choice.seconds > 0), p.count) for p in parts)
        )
        self._by_mix[mix] = parts
        return mix

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The rule's parts that made this mix."""
        return self._by_mix[mix]

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The rule's own bytes."""
        parts = [self._rule(tuple(row)) for row in counts.tolist()]
        return np.array(
            [
                [self._bytes(p, s, flight) for p, s in zip(parts, states.tolist(), strict=True)]
                for flight in in_flight.tolist()
            ]
        )

    def slowest(self, counts: Index) -> Floats:
        """The rule's own seconds."""
        return np.array([self._seconds(self._rule(tuple(row))) for row in counts.tolist()])

    @property
    def _limit(self) -> float:
        return self._costs.capacity_bytes * (1 + 1e-12)

    def _seconds(self, parts: tuple[Part, ...]) -> float:
        return sum(part.seconds for part in parts)

    def _bytes(self, parts: tuple[Part, ...], states: float, in_flight: int) -> float:
        blocks = self._costs.blocks
        working = max(part.recompute_bytes + blocks[part.kind].working_bytes for part in parts)
        kept = sum(part.kept_bytes for part in parts)
        return states + in_flight * kept + working + self._costs.reserved_bytes
