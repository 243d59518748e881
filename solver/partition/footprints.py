"""In how little memory runs can be held: kept bytes per micro-batch against a buffer.

A *footprint* of a run is one way to hold it: bytes for every micro-batch alive, and the buffer that
its backward fills. The larger the buffer, the less need be kept. Which ways are best for a device
whose chunks share its memory is decided exactly by ``least_held``, without looking at all of them
together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.levels import levels
from solver.partition.menu import Floats, Index
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule
from solver.schedules.moments import moments


@dataclass(frozen=True, eq=False)
class Footprints:
    """Of every signature its ways, by ascending buffer and descending kept bytes.

    ``kept`` and ``buffers`` have shape (signatures, ways); ways that a run does not have keep
    infinitely much. ``states``, ``waiting``, which waits with the gradients of weights, and
    ``lengths`` in blocks have shape (signatures,).
    """

    kept: Floats
    buffers: Floats
    states: Floats
    waiting: Floats
    lengths: Index


def free_footprints(
    costs: PipelineCosts, frontiers: tuple[Frontier, ...], counts: Index
) -> Footprints:
    """Footprints where every block may choose: within a buffer each keeps its least."""
    working = tuple(block.working_bytes for block in costs.blocks)
    found = levels(frontiers, working)
    least, buffers = found.least[:, found.steps], found.values[found.steps]
    absent = (counts > 0) @ ~np.isfinite(least)
    kept = np.where(absent, math.inf, counts @ np.where(np.isfinite(least), least, 0.0))
    return _footprints(costs, counts, kept, np.broadcast_to(buffers, kept.shape))


def given_footprints(
    costs: PipelineCosts, counts: Index, ways: Sequence[Sequence[tuple[float, float]]]
) -> Footprints:
    """Footprints where a signature has these ways, (kept bytes, buffer), and no others."""
    most = max(map(len, ways))
    kept = np.full((len(ways), most), math.inf)
    buffers = np.zeros((len(ways), most))
    for signature, own in enumerate(ways):
        best: list[tuple[float, float]] = []
        for size, buffer in sorted(own, key=lambda way: (way[1], way[0])):
            if not best or size < best[-1][0]:
                best.append((size, buffer))
        best = [(math.inf, 0.0)] * (most - len(best)) + best
        kept[signature], buffers[signature] = zip(*best, strict=True)
    return _footprints(costs, counts, kept, buffers)


def _footprints(costs: PipelineCosts, counts: Index, kept: Floats, buffers: Floats) -> Footprints:
    states = counts @ np.array([block.states.total for block in costs.blocks])
    waiting = counts @ np.array([block.weight_held_bytes for block in costs.blocks])
    return Footprints(kept, buffers, states, waiting, counts.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of a device as arrays: ``alive`` and ``waiting`` of shape (moments, chunks);
    ``acting`` the number of the acting chunk, that of all chunks where none acts."""

    alive: Floats
    waiting: Floats
    acting: Index

    @classmethod
    def of(cls, schedule: Schedule, device: int) -> Moments:
        """Those of one device of a schedule."""
        found, chunks = moments(schedule, device), schedule.stages_of(device)
        none = len(chunks)
        acting = [none if m.acting is None else chunks.index(m.acting) for m in found]
        return cls(
            np.array([moment.alive for moment in found], dtype=np.float64),
            np.array([moment.waiting for moment in found], dtype=np.float64),
            np.array(acting),
        )

    def needed(self, kept: Floats, buffers: Floats, waiting: Floats) -> Floats:
        """Bytes beside states at every moment; the arguments have shape (chunks,)."""
        held = self.alive @ kept + self.waiting @ waiting
        return np.asarray(held + np.append(buffers, 0.0)[self.acting])


def least_held(
    at: Moments, kept: Floats, buffers: Floats, waiting: Floats
) -> tuple[float, tuple[int, ...]]:
    """The least bytes beside states that a device's chunks need, and the way of each chunk.

    All begin at their largest buffers, where they keep least. To need less than the best known, a
    chunk that acts when the device is too full must take a smaller buffer, however little the
    others keep; so each step down is forced, and when one is not possible the best known is the
    least of all.

    Args:
        at: When the device is full.
        kept: Shape (chunks, ways), by ascending buffer.
        buffers: Likewise.
        waiting: Shape (chunks,).
    """
    chunks = np.arange(len(kept))
    way = np.full(len(kept), kept.shape[1] - 1)
    best, chosen = math.inf, tuple(way.tolist())
    while True:
        held = kept[chunks, way]
        needed = at.needed(held, buffers[chunks, way], waiting)
        if float(needed.max()) < best:
            best, chosen = float(needed.max()), tuple(way.tolist())
        others = needed - np.append(buffers[chunks, way], 0.0)[at.acting]
        before = way.copy()
        for moment in np.flatnonzero(needed >= best).tolist():
            chunk = int(at.acting[moment])
            if chunk == len(kept):
                return best, chosen
            smaller = np.flatnonzero(buffers[chunk, : before[chunk]] + others[moment] < best)
            if not len(smaller) or not math.isfinite(kept[chunk, smaller[-1]]):
                return best, chosen
            way[chunk] = min(way[chunk], smaller[-1])
