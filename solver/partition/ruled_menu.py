"""Menus of framework policies that count layers on a stage: ``block`` and ``uniform``.

Such a policy leaves nothing to choose: a stage's recompute time and memory follow from its blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Floats, Index, Menu, Mix, Part

Rule = Callable[[tuple[int, ...]], tuple[Part, ...]]
"""From the blocks of each kind on a stage to what each of them does."""


@dataclass(frozen=True)
class Ruled:
    """What a rule makes of a run: the parts, their seconds, and their bytes per micro-batch."""

    parts: tuple[Part, ...]
    seconds: float
    kept: float
    working: float


class RuledMenu(Menu):
    """What one rule makes of every run of blocks."""

    def __init__(self, costs: PipelineCosts, rule: Rule) -> None:
        self._costs = costs
        self.rule = rule
        self._of_counts: dict[tuple[int, ...], Ruled] = {}
        self._by_mix: dict[Mix, tuple[Part, ...]] = {}

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The rule's own seconds where it fits."""
        seconds, kept, working = self._columns(counts)
        needed = states + in_flight * kept + working + self._costs.reserved_bytes
        return np.where(needed <= self._limit, seconds, math.inf)

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The rule's mix, or None if it does not fit."""
        ruled = self._ruled(counts)
        if self._needed(counts, ruled, states, in_flight) > self._limit:
            return None
        chosen = tuple((p.kind, int(p.choice.seconds > 0), p.count) for p in ruled.parts)
        mix = Mix(ruled.seconds, ruled.seconds, chosen)
        self._by_mix[mix] = ruled.parts
        return mix

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The rule's parts that made this mix."""
        return self._by_mix[mix]

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The rule's own bytes."""
        _, kept, working = self._columns(counts)
        held = np.multiply.outer(in_flight, kept)
        return np.asarray(states + held + working + self._costs.reserved_bytes)

    def slowest(self, counts: Index) -> Floats:
        """The rule's own seconds."""
        return self._columns(counts)[0]

    @property
    def known_mixes(self) -> dict[Mix, tuple[Part, ...]]:
        """The parts behind every mix that was given out."""
        return self._by_mix

    def _needed(
        self,
        counts: tuple[int, ...],  # noqa: ARG002 - for menus whose blocks hold more than they keep
        ruled: Ruled,
        states: float,
        in_flight: int,
    ) -> float:
        return states + in_flight * ruled.kept + ruled.working + self._costs.reserved_bytes

    @property
    def _limit(self) -> float:
        return self._costs.capacity_bytes * (1 + 1e-12)

    def _columns(self, counts: Index) -> tuple[Floats, Floats, Floats]:
        """Seconds, kept and working bytes of every run, each of shape (runs,)."""
        ruled = [self._ruled(tuple(row)) for row in counts.tolist()]
        return (
            np.array([run.seconds for run in ruled]),
            np.array([run.kept for run in ruled]),
            np.array([run.working for run in ruled]),
        )

    def _ruled(self, counts: tuple[int, ...]) -> Ruled:
        if counts not in self._of_counts:
            parts, blocks = self.rule(counts), self._costs.blocks
            self._of_counts[counts] = Ruled(
                parts=parts,
                seconds=sum(part.seconds for part in parts),
                kept=sum(part.kept_bytes for part in parts),
                working=max(p.recompute_bytes + blocks[p.kind].working_bytes for p in parts),
            )
        return self._of_counts[counts]


class AheadMenu(RuledMenu):
    """A rule under which every stage recomputes ahead of the gradient."""

    def ahead(self) -> Menu:
        """This one."""
        return self

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The rule's mix, told to run ahead, or None if it does not fit."""
        mix = super().cheapest(counts, states, in_flight)
        if mix is None or not mix.seconds:
            return mix
        timed = replace(mix, ahead=True)
        self._by_mix[timed] = self._by_mix[mix]
        return timed
