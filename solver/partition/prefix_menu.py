"""A menu of numbers: every stage re-runs so many of its first layers, each as many as it needs."""

from __future__ import annotations

import math

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.partition.policy_menu import first_layers_menu
from solver.recompute.choice import keep_all


class PrefixMenu(Menu):
    """For every run the number of first layers in full that fits at least time.

    Args:
        costs: What each block costs.
        numbers: The numbers that a stage may take.
    """

    def __init__(self, costs: PipelineCosts, numbers: tuple[int, ...]) -> None:
        kept = [keep_all(block) for block in costs.blocks]
        self._menus = [first_layers_menu(costs, number, kept) for number in numbers]
        self._of_mix: dict[Mix, tuple[Part, ...]] = {}

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The least of all numbers' seconds where they fit."""
        found = [menu.bounds(counts, states, in_flight) for menu in self._menus]
        return np.asarray(np.min(found, axis=0))

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The mix of the number that takes least time, or None if none fits."""
        best: tuple[Mix, tuple[Part, ...]] | None = None
        for menu in self._menus:
            mix = menu.cheapest(counts, states, in_flight)
            if mix is not None and (best is None or mix.seconds < best[0].seconds):
                best = (mix, menu.parts(mix))
        if best is None:
            return None
        self._of_mix[best[0]] = best[1]
        return best[0]

    def mixes(self, counts: tuple[int, ...]) -> tuple[Mix, ...]:
        """The mixes of all numbers, whatever memory there is, those with fewer layers first."""
        found: dict[Mix, None] = {}
        for menu in self._menus:
            mix = menu.cheapest(counts, -math.inf, 1)
            assert mix is not None, "everything fits where states are endlessly small"
            self._of_mix.setdefault(mix, menu.parts(mix))
            found[mix] = None
        return tuple(found)

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """What the blocks of a mix do."""
        return self._of_mix[mix]

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The least of all numbers' bytes."""
        found = [menu.least_bytes(counts, states, in_flight) for menu in self._menus]
        return np.asarray(np.min(found, axis=0))

    def slowest(self, counts: Index) -> Floats:
        """The most of all numbers' seconds."""
        return np.asarray(np.max([menu.slowest(counts) for menu in self._menus], axis=0))
