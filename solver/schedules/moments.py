"""When a device holds most: the micro-batches alive on each of its stages at every backward.

Memory is at its height when a backward begins: its own activations are still alive and its block
rebuilds what it did not keep. Where the gradient of the weights is work of its own, what it needs
is held from the end of the backward until it has run, and memory may also be at its height between
two tasks. A moment whose every count another moment of the same acting stage (or, if no stage acts,
any other) reaches or passes need not be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from solver.schedules.schedule import ByKey, Schedule, Work

Counts = npt.NDArray[np.int64]

TOGETHER = 256
"""Vectors that are compared with all others at once."""


@dataclass(frozen=True)
class Moment:
    """Micro-batches on each stage of a device (in model order) as ``acting`` begins a backward.

    ``alive`` counts those whose forward ran and whose backward has not ended, ``waiting`` those
    whose backward has ended and whose gradient of the weights has not; both follow
    ``Schedule.stages_of`` the device. ``acting`` is None between two tasks.
    """

    acting: int | None
    alive: tuple[int, ...]
    waiting: tuple[int, ...]


def moments(schedule: Schedule, device: int) -> tuple[Moment, ...]:
    """The moments of a device that some memory limit could make decisive."""
    return _moments(ByKey(schedule), device)


@lru_cache(maxsize=4096)
def _moments(keyed: ByKey, device: int) -> tuple[Moment, ...]:
    schedule = keyed.schedule
    stages = schedule.stages_of(device)
    order = schedule.order(device)
    here = order[:, 1][:, None] == np.array(stages)
    forward, backward, weight = (
        here & (order[:, 0] == work)[:, None] for work in (Work.FORWARD, Work.BACKWARD, Work.WEIGHT)
    )
    alive = np.cumsum(forward.astype(np.int64) - backward, axis=0)
    waiting = np.zeros_like(alive)
    if schedule.splits_backward:
        waiting = np.cumsum(backward.astype(np.int64) - weight, axis=0)
    after = np.concatenate([alive, waiting], axis=1)
    before = after - np.concatenate([-backward.astype(np.int64), backward], axis=1)
    if not schedule.splits_backward:
        before[:, len(stages) :] = 0
    every = np.zeros((0, 2 * len(stages)), dtype=np.int64)
    found: list[Moment] = []
    for place, stage in enumerate(stages):
        vectors = _largest(before[backward[:, place]])
        every = np.concatenate([every, vectors])
        found += [_moment(stage, vector) for vector in vectors.tolist()]
    if schedule.splits_backward:
        between = _largest(after)
        found += [
            _moment(None, vector.tolist())
            for vector in between
            if not (every >= vector).all(axis=1).any()
        ]
    return tuple(found)


def _moment(acting: int | None, counts: list[int]) -> Moment:
    half = len(counts) // 2
    return Moment(acting, tuple(counts[:half]), tuple(counts[half:]))


def _largest(vectors: Counts) -> Counts:
    """The distinct vectors that no other one reaches in every place."""
    distinct = np.unique(vectors, axis=0)
    reached = [
        (distinct[:, None, :] >= some).all(axis=2).sum(axis=0)
        for some in np.split(distinct, range(TOGETHER, len(distinct), TOGETHER))
    ]
    return np.asarray(distinct[np.concatenate(reached) == 1])
