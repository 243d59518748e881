"""Two menus of the same blocks: for stages that recompute on demand, and for those ahead."""

from __future__ import annotations

from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.partition.runs import Signatures


class TimedMenu(Menu):
    """The menu on demand, which knows the one ahead of the gradient."""

    def __init__(self, on_demand: Menu, ahead: Menu) -> None:
        self.on_demand, self._ahead = on_demand, ahead

    def ahead(self) -> Menu:
        """The menu of stages that recompute ahead."""
        return self._ahead

    def signatures(self) -> Signatures | None:
        """As on demand."""
        return self.on_demand.signatures()

    def signature(self, run: tuple[int, ...], kinds: int) -> tuple[int, ...]:
        """As on demand."""
        return self.on_demand.signature(run, kinds)

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """As on demand."""
        return self.on_demand.bounds(counts, states, in_flight)

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """As on demand."""
        return self.on_demand.cheapest(counts, states, in_flight)

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """As on demand."""
        return self.on_demand.parts(mix)

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """As on demand."""
        return self.on_demand.least_bytes(counts, states, in_flight)

    def slowest(self, counts: Index) -> Floats:
        """As on demand."""
        return self.on_demand.slowest(counts)

    def quick(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """As on demand."""
        return self.on_demand.quick(counts, states, in_flight)
