"""A quick mix for a device that holds several stages: what saves most time per byte is kept first.

Choices on the lower convex hull of a frontier are steps, each keeping more and recomputing less.
The steps of all chunks are taken in the order of seconds per byte, weighed by how many
micro-batches of their chunk are alive on the mean, for as many blocks as have room at every moment.
The buffers are those of the choices found the time before, so that steps are gone through twice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.partition.menu import Index
from solver.recompute.frontier import Frontier

Floats = npt.NDArray[np.float64]
Parts = list[list[tuple[int, int, int]]]
"""Per chunk (kind, choice, count)."""

ROUNDS = 2


@dataclass(frozen=True)
class _Step:
    """From one choice of a kind to the next on its hull."""

    before: int
    after: int
    kept: float
    seconds: float


def steps(front: Frontier) -> tuple[int, tuple[_Step, ...]]:
    """The choice of least kept bytes, and the steps from it along the hull."""
    hull: list[int] = []
    kept, seconds = front.kept.tolist(), front.seconds.tolist()
    for at in sorted(range(len(kept)), key=lambda at: (kept[at], seconds[at])):
        if hull and seconds[at] >= seconds[hull[-1]]:
            continue
        while len(hull) > 1 and _flat(kept, seconds, hull[-2], hull[-1], at):
            hull.pop()
        hull.append(at)
    made = [
        _Step(a, b, kept[b] - kept[a], seconds[a] - seconds[b]) for a, b in itertools.pairwise(hull)
    ]
    return hull[0], tuple(made)


def _flat(kept: list[float], seconds: list[float], a: int, b: int, c: int) -> bool:
    """Whether b lies on or above the line from a to c."""
    one = (seconds[b] - seconds[a]) * (kept[c] - kept[a])
    return one >= (seconds[c] - seconds[a]) * (kept[b] - kept[a])


class Greedy:
    """Quick mixes of one device.

    Args:
        frontiers: What each kind may choose among.
        working: Working bytes of each kind beside what is rebuilt.
        alive: Micro-batches of each chunk alive at every moment, shape (moments, chunks).
        acting: The chunk whose buffer is filled at each moment; -1 for none.
    """

    def __init__(
        self, frontiers: tuple[Frontier, ...], working: list[float], alive: Floats, acting: Index
    ) -> None:
        self._frontiers, self._alive, self._acting = frontiers, alive, acting
        self._working = working
        self._steps = [steps(front) for front in frontiers]
        weight = np.maximum(alive.mean(axis=0), 1e-9)
        order = [
            (step.seconds / max(step.kept * weight[chunk], 1e-300), chunk, kind, number)
            for chunk in range(alive.shape[1])
            for kind, (_, made) in enumerate(self._steps)
            for number, step in enumerate(made)
        ]
        self._order = [entry[1:] for entry in sorted(order, key=lambda e: (-e[0], e[3], e[1:]))]

    def parts(self, counts: Index, held: Floats, spared: int | None = None) -> Parts | None:
        """Choices that fit, or None if the least kept do not.

        Args:
            counts: Blocks of every kind per chunk, shape (chunks, kinds).
            held: Bytes that are left at every moment for kept tensors and buffers.
            spared: A chunk whose steps are taken before all others.
        """
        order = self._order
        if spared is not None:
            order = sorted(order, key=lambda step: step[0] != spared)
        best = None
        buffers = self._buffers({}, counts)
        for _ in range(ROUNDS):
            taken = self._take(counts, held - self._at_moments(buffers), order)
            if taken is None:
                break
            best, buffers = taken, self._buffers(taken, counts)
        if best is None:
            return None
        return [
            [
                (kind, choice, count)
                for (at, kind, choice), count in sorted(best.items())
                if at == chunk and count
            ]
            for chunk in range(len(counts))
        ]

    def _at_moments(self, buffers: list[float]) -> Floats:
        return np.array([0.0 if at < 0 else buffers[at] for at in self._acting.tolist()])

    def _buffers(self, taken: dict[tuple[int, int, int], int], counts: Index) -> list[float]:
        """Per chunk the largest buffer of its choices; at first that of the least kept."""
        largest = [0.0] * len(counts)
        used = taken or {
            (chunk, kind, self._steps[kind][0]): int(count)
            for chunk, row in enumerate(counts.tolist())
            for kind, count in enumerate(row)
        }
        for (chunk, kind, choice), count in used.items():
            if count:
                size = float(self._frontiers[kind].rebuilt[choice]) + self._working[kind]
                largest[chunk] = max(largest[chunk], size)
        return largest

    def _take(
        self, counts: Index, room: Floats, order: list[tuple[int, int, int]]
    ) -> dict[tuple[int, int, int], int] | None:
        """The steps that fit into the room of every moment, taken from the best on."""
        taken: dict[tuple[int, int, int], int] = {}
        left = room.copy()
        for chunk, row in enumerate(counts.tolist()):
            for kind, count in enumerate(row):
                if count:
                    least = self._steps[kind][0]
                    taken[chunk, kind, least] = count
                    left -= self._alive[:, chunk] * count * float(self._frontiers[kind].kept[least])
        if (left < 0).any():
            return None
        for chunk, kind, number in order:
            step = self._steps[kind][1][number]
            count = taken.get((chunk, kind, step.before), 0)
            if not count:
                continue
            each = self._alive[:, chunk] * step.kept
            some = each > 0
            if some.any():
                count = min(count, int((left[some] / each[some]).min() * (1 + 1e-12)))
            if count > 0:
                left -= each * count
                taken[chunk, kind, step.before] -= count
                taken[chunk, kind, step.after] = taken.get((chunk, kind, step.after), 0) + count
        return taken
