"""A device that holds several stages, as one stage: the cheapest mix over all its blocks.

Blocks of one kind on different chunks count as different kinds, whose kept bytes are weighed by how
many micro-batches of their chunk are alive. No single weight is right, for the chunks are not
fullest at the same moment: weights from the mean over the moments upwards are tried until a mix
fits at every moment; the largest, each chunk at its own fullest, always does. The exact program
(``shared_program.py``) knows the moments apart.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.core import ROUNDING
from solver.partition.footprints import Moments, free_footprints, least_held
from solver.partition.free_menu import FreeMenu
from solver.partition.greedy import Greedy
from solver.partition.menu import Index, Mix
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule
from solver.schedules.moments import moments

SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)
"""How far from the mean to the largest count alive the weights tried lie."""


class DeviceMenu:
    """Cheapest mixes of one device, for any runs of blocks on its chunks."""

    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: Schedule,
        device: int,
    ) -> None:
        self._costs, self._frontiers = costs, frontiers
        found = moments(schedule, device)
        self._chunks = schedule.stages_of(device)
        self._alive = np.array([moment.alive for moment in found], dtype=np.float64)
        self._waiting = np.array([moment.waiting for moment in found], dtype=np.float64)
        none = len(self._chunks)
        self._acting = np.array(
            [none if m.acting is None else self._chunks.index(m.acting) for m in found]
        )
        self._known: dict[bytes, list[Mix] | None] = {}
        self._quick: dict[bytes, list[Mix] | None] = {}
        self._held = np.array([block.weight_held_bytes for block in costs.blocks])
        self._quickest = [int(front.seconds.argmin()) for front in frontiers]

    @cached_property
    def _menus(self) -> list[FreeMenu]:
        """One per weight that is tried."""
        most, mean = self._alive.max(axis=0), self._alive.mean(axis=0)
        blocks = replace(self._costs, blocks=self._costs.blocks * len(self._chunks))
        made = []
        for share in SHARES if len(self._alive) > 1 else (1.0,):
            weights = (mean + share * (most - mean)).tolist()
            # Scaling keeps the order of choices by kept bytes, and with it their numbers.
            weighed = [_weighed(front, weight) for weight in weights for front in self._frontiers]
            made.append(FreeMenu(blocks, tuple(weighed)))
        return made

    @cached_property
    def _greedy(self) -> Greedy:
        none = len(self._chunks)
        return Greedy(
            self._frontiers,
            [block.working_bytes for block in self._costs.blocks],
            self._alive,
            np.where(self._acting == none, -1, self._acting),
        )

    def quick_mixes(self, counts: Index, states: float) -> list[Mix] | None:
        """As ``mixes``, but quickly found: what saves most time per byte is kept first."""
        key = counts.tobytes()
        if key not in self._quick:
            self._quick[key] = self._greedy_mixes(counts, states)
        return self._quick[key]

    def _greedy_mixes(self, counts: Index, states: float) -> list[Mix] | None:
        room = self._costs.capacity_bytes - self._costs.reserved_bytes - states
        parts = self._greedy.parts(counts, room - self._waiting @ (counts @ self._held))
        if parts is None or not self.fits(parts, states):
            return None
        return [self._mix(chunk) for chunk in parts]

    def emphasised_mixes(self, counts: Index, states: float) -> list[tuple[Mix, ...]]:
        """Quick mixes that spare all chunks alike, and each chunk before the others; all differ."""
        quickest = self._quickest_parts(counts)
        if self.fits(quickest, states):
            return [tuple(self.mixes_of(quickest))]
        room = self._costs.capacity_bytes - self._costs.reserved_bytes - states
        held = room - self._waiting @ (counts @ self._held)
        found: dict[tuple[Mix, ...], None] = {}
        for chunk in (None, *range(len(self._chunks))):
            parts = self._greedy.parts(counts, held, chunk)
            if parts is not None and self.fits(parts, states):
                found[tuple(self.mixes_of(parts))] = None
        return list(found)

    def mixes(self, counts: Index, states: float) -> list[Mix] | None:
        """One mix per chunk, or None if the device cannot hold them.

        Args:
            counts: Blocks of every kind per chunk, shape (chunks, kinds).
            states: State bytes of all chunks; they follow from the counts.
        """
        key = counts.tobytes()
        if key not in self._known:
            self._known[key] = self._search(counts, states)
        return self._known[key]

    def _search(self, counts: Index, states: float) -> list[Mix] | None:
        quickest = self._quickest_parts(counts)
        if self.fits(quickest, states):
            return [self._mix(chunk) for chunk in quickest]
        held = float((self._waiting @ (counts @ self._held)).max())
        for menu in self._menus:
            found = menu.cheapest(tuple(counts.ravel().tolist()), states + held, 1)
            if found is not None:
                parts = self._by_chunk(found)
                if menu is self._menus[-1] or self.fits(parts, states):
                    return [self._mix(chunk) for chunk in parts]
        least = self._least(counts)
        return [self._mix(chunk) for chunk in least] if self.fits(least, states) else None

    def _least(self, counts: Index) -> list[list[tuple[int, int, int]]]:
        """(kind, choice, count) per chunk, in the least memory."""
        found = free_footprints(self._costs, self._frontiers, counts)
        at = Moments(self._alive, self._waiting, self._acting)
        _, ways = least_held(at, found.kept, found.buffers, found.waiting)
        parts: list[list[tuple[int, int, int]]] = []
        for chunk, way in enumerate(ways):
            limit = float(found.buffers[chunk, way]) * (1 + ROUNDING)
            parts.append(
                [
                    (kind, self._least_choice(kind, limit), count)
                    for kind, count in enumerate(counts[chunk].tolist())
                    if count
                ]
            )
        return parts

    def _least_choice(self, kind: int, limit: float) -> int:
        """The first choice, they are by kept bytes, whose buffer stays within a limit."""
        front, block = self._frontiers[kind], self._costs.blocks[kind]
        return int((front.rebuilt + block.working_bytes <= limit).argmax())

    def _quickest_parts(self, counts: Index) -> list[list[tuple[int, int, int]]]:
        """(kind, choice, count) per chunk, nothing recomputed that need not be."""
        return [
            [(k, self._quickest[k], n) for k, n in enumerate(row) if n] for row in counts.tolist()
        ]

    def _by_chunk(self, found: Mix) -> list[list[tuple[int, int, int]]]:
        parts: list[list[tuple[int, int, int]]] = [[] for _ in self._chunks]
        for place, choice, count in found.parts:
            chunk, kind = divmod(place, len(self._frontiers))
            parts[chunk].append((kind, choice, count))
        return parts

    def fits(self, parts: list[list[tuple[int, int, int]]], states: float) -> bool:
        """Whether the device holds these, (kind, choice, count) per chunk, at every moment."""
        fronts, blocks = self._frontiers, self._costs.blocks
        kept = np.array([sum(n * fronts[k].kept[c] for k, c, n in part) for part in parts])
        buffers = [
            max(fronts[k].rebuilt[c] + blocks[k].working_bytes for k, c, _ in part)
            for part in parts
        ]
        room = self._costs.capacity_bytes - self._costs.reserved_bytes - states
        waits = np.array([sum(n * self._held[k] for k, _, n in part) for part in parts])
        working = np.array([*buffers, 0.0])[self._acting]
        return bool((self._alive @ kept + self._waiting @ waits + working <= room).all())

    def mixes_of(self, parts: list[list[tuple[int, int, int]]]) -> list[Mix]:
        """One mix per chunk from its (kind, choice, count)."""
        return [self._mix(chunk) for chunk in parts]

    def _mix(self, parts: list[tuple[int, int, int]]) -> Mix:
        seconds = sum(n * float(self._frontiers[k].seconds[c]) for k, c, n in parts)
        return Mix(seconds, seconds, tuple(sorted(parts)))


def _weighed(front: Frontier, alive: float) -> Frontier:
    """The frontier with the kept bytes of all micro-batches alive, its choices in their order."""
    return Frontier(front.choices, alive * front.kept, front.seconds, front.rebuilt)
