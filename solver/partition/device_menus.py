"""The menus of a pipeline whose devices differ: one for each kind of device."""

from __future__ import annotations

from typing import NoReturn

from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.partition.runs import Signatures


class DeviceMenus(Menu):
    """A menu per device of the pipeline; whoever asks it says which by ``at``."""

    def __init__(self, menus: tuple[Menu, ...]) -> None:
        self._menus = menus

    def at(self, device: int) -> Menu:
        """The menu of one device."""
        return self._menus[device]

    def signatures(self) -> Signatures | None:
        """The runs that the menus tell apart: all of them the same."""
        return self._menus[0].signatures()

    def signature(self, run: tuple[int, ...], kinds: int) -> tuple[int, ...]:
        """What every menu knows a run by."""
        return self._menus[0].signature(run, kinds)

    def ahead(self) -> Menu:
        """The menus of stages that recompute ahead."""
        return DeviceMenus(tuple(menu.ahead() for menu in self._menus))

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """A mix does not say whose it is."""
        self._refuse(mix)

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Bounds differ by device."""
        self._refuse(counts, states, in_flight)

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """Mixes differ by device."""
        self._refuse(counts, states, in_flight)

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Bytes differ by device."""
        self._refuse(counts, states, in_flight)

    def slowest(self, counts: Index) -> Floats:
        """Seconds differ by device."""
        self._refuse(counts)

    def _refuse(self, *asked: object) -> NoReturn:
        raise TypeError(f"ask the menu of one device: at(device), not {len(asked)} arguments")
