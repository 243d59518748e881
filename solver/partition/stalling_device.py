"""A device that holds several stages, some of which recompute ahead of the gradient.

As ``device_menu.py``; what a stage ahead rebuilds is held together just before its backward, so
that a choice of its blocks weighs as if it kept a part of that as well: a share of it at first,
for the stages of a device do not act at once, and if that does not fit, all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.device_menu import DeviceMenu
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Index, Mix
from solver.partition.stalling_program import TimedFrontiers, charged_seconds
from solver.recompute.choice import Picked
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule

TRIED = (0.25, 1.0)
"""How far from the mean to the largest count alive, and from a part of what is rebuilt to all."""


class StallingDevice(DeviceMenu):
    """Cheapest mixes of one device whose stages' timings are given.

    Args:
        costs: What each block costs.
        frontiers: What each kind may choose among.
        schedule: A schedule that has recompute ahead.
        device: Which device.
        ahead: Per chunk, whether it recomputes ahead.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: TimedFrontiers,
        schedule: Schedule,
        device: int,
        ahead: tuple[bool, ...],
    ) -> None:
        super().__init__(costs, frontiers.on_demand, schedule, device)
        self._ahead = ahead
        self._of_chunk = [frontiers.of(ahead=each) for each in ahead]
        self._rows: dict[int, list[Index]] = {}

    @cached_property
    def _menus(self) -> list[FreeMenu]:
        most, mean = self._alive.max(axis=0), self._alive.mean(axis=0)
        blocks = replace(self._costs, blocks=self._costs.blocks * len(self._chunks))
        made = []
        for share in TRIED if len(self._alive) > 1 else (1.0,):
            weighed, rows = [], []
            held = share + (1 - share) / len(self._chunks)
            for chunk, weight in enumerate((mean + share * (most - mean)).tolist()):
                for front in self._of_chunk[chunk]:
                    found, numbers = _weighed(front, weight, held if self._ahead[chunk] else 0.0)
                    weighed.append(found)
                    rows.append(numbers)
            made.append(FreeMenu(blocks, tuple(weighed)))
            self._rows[id(made[-1])] = rows
        return made

    def _search(self, counts: Index, states: float) -> list[Mix] | None:
        quickest = [
            [(k, int(fronts[k].seconds.argmin()), n) for k, n in enumerate(row) if n]
            for row, fronts in zip(counts.tolist(), self._of_chunk, strict=True)
        ]
        if self.fits(quickest, states):
            return self.mixes_of(quickest)
        for menu in self._menus:
            found = menu.cheapest(tuple(counts.ravel().tolist()), states, 1)
            if found is None:
                continue
            parts: list[list[tuple[int, int, int]]] = [[] for _ in self._chunks]
            for place, choice, count in found.parts:
                chunk, kind = divmod(place, len(self._frontiers))
                parts[chunk].append((kind, int(self._rows[id(menu)][place][choice]), count))
            if self.fits(parts, states):
                return self.mixes_of(parts)
        return None

    def fits(self, parts: list[list[tuple[int, int, int]]], states: float) -> bool:
        """Whether the device holds these, (kind, choice, count) per chunk, at every moment."""
        kept = np.zeros(len(parts))
        buffers = np.zeros(len(parts) + 1)
        for chunk, (part, fronts) in enumerate(zip(parts, self._of_chunk, strict=True)):
            kept[chunk] = sum(n * fronts[k].kept[c] for k, c, n in part)
            working = [(k, self._costs.blocks[k].working_bytes) for k, _, _ in part]
            if self._ahead[chunk]:
                rebuilt = sum(n * fronts[k].rebuilt[c] for k, c, n in part)
                buffers[chunk] = rebuilt + max(size for _, size in working)
            else:
                buffers[chunk] = max(
                    fronts[k].rebuilt[c] + size
                    for (k, c, _), (_, size) in zip(part, working, strict=True)
                )
        room = self._costs.capacity_bytes - self._costs.reserved_bytes - states
        return bool((self._alive @ kept + buffers[self._acting] <= room).all())

    def mixes_of(self, parts: list[list[tuple[int, int, int]]]) -> list[Mix]:
        """One mix per chunk from its (kind, choice, count)."""
        return [self._timed_mix(chunk, part) for chunk, part in enumerate(parts)]

    def _timed_mix(self, chunk: int, parts: list[tuple[int, int, int]]) -> Mix:
        fronts = self._of_chunk[chunk]
        seconds = sum(n * float(fronts[k].seconds[c]) for k, c, n in parts)
        if not (self._ahead[chunk] and seconds > 0):
            return Mix(seconds, seconds, tuple(sorted(parts)), 0.0, self._ahead[chunk])
        charged = sum(n * charged_seconds(self._costs, fronts[k], c) for k, c, n in parts)
        return Mix(seconds, seconds, tuple(sorted(parts)), charged, ahead=True)


def _weighed(front: Frontier, alive: float, held: float) -> tuple[Frontier, Index]:
    """The frontier with the kept bytes of all micro-batches alive and a part of what is rebuilt.

    With it the rows of its choices. On demand, with ``held`` zero, they are all in their order.
    """
    if not held:
        made = Frontier(front.choices, alive * front.kept, front.seconds, front.rebuilt)
        return made, np.arange(len(front.kept))
    kept = alive * front.kept + held * front.rebuilt
    rows = undominated_rows(np.stack([kept, front.seconds], axis=1))
    choices = Picked((front.choices,), rows)
    return Frontier(choices, kept[rows], front.seconds[rows], np.zeros(len(rows))), rows
