"""A menu for stages that recompute ahead of the gradient: all they rebuild is alive at once.

A stage with ``f`` micro-batches in flight needs ``f`` times its kept bytes and, once, what its
blocks rebuild. So a choice weighs as if it kept ``kept + rebuilt / f`` and rebuilt nothing.
"""

from __future__ import annotations

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.recompute.choice import Picked
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier


class GatheredMenu(Menu):
    """Any choice for any block; what all blocks rebuild is held together.

    Args:
        costs: The blocks (for their working bytes), capacity and reserved bytes.
        frontiers: One frontier per block kind.
    """

    def __init__(self, costs: PipelineCosts, frontiers: tuple[Frontier, ...]) -> None:
        self._costs, self.frontiers = costs, frontiers
        self._made: dict[int, tuple[FreeMenu, list[Index]]] = {}

    def _with(self, in_flight: int) -> tuple[FreeMenu, list[Index]]:
        """The menu for so many micro-batches in flight, and its choices' rows in the frontiers."""
        if in_flight not in self._made:
            rows = [_weighed_rows(front, in_flight) for front in self.frontiers]
            fronts = tuple(
                Frontier(
                    choices=Picked((front.choices,), mine),
                    kept=(front.kept + front.rebuilt / in_flight)[mine],
                    seconds=front.seconds[mine],
                    rebuilt=np.zeros(len(mine)),
                )
                for front, mine in zip(self.frontiers, rows, strict=True)
            )
            self._made[in_flight] = (FreeMenu(self._costs, fronts), rows)
        return self._made[in_flight]

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The Lagrangian bound of every run."""
        found = np.empty(len(counts))
        for flight in np.unique(in_flight).tolist():
            here = in_flight == flight
            menu, _ = self._with(flight)
            found[here] = menu.bounds(counts[here], states[here], in_flight[here])
        return found

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest mix of a signature, or None if nothing fits."""
        menu, rows = self._with(in_flight)
        mix = menu.cheapest(counts, states, in_flight)
        if mix is None:
            return None
        parts = ((kind, int(rows[kind][choice]), count) for kind, choice, count in mix.parts)
        return Mix(mix.seconds, mix.bound, tuple(sorted(parts)))

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix."""
        return tuple(
            Part(kind, self.frontiers[kind].choices[choice], count)
            for kind, choice, count in mix.parts
        )

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least."""
        return np.concatenate(
            [
                self._with(flight)[0].least_bytes(counts, states, np.array([flight]))
                for flight in in_flight.tolist()
            ]
        )

    def slowest(self, counts: Index) -> Floats:
        """Every block at its slowest choice."""
        return np.asarray(counts @ np.array([front.seconds.max() for front in self.frontiers]))


def _weighed_rows(front: Frontier, in_flight: int) -> Index:
    """The choices that some budget makes best, by ascending bytes."""
    return undominated_rows(np.stack([front.kept + front.rebuilt / in_flight, front.seconds], 1))
