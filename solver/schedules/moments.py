"""When a device holds most: the micro-batches alive on each of its stages at every backward.

Memory is at its height when a backward begins: its own activations are still alive and its block
rebuilds what it did not keep. A moment whose every count another moment of the same acting stage
reaches or passes need not be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from solver.schedules.schedule import ByKey, Schedule, Work


@dataclass(frozen=True)
class Moment:
    """Micro-batches alive on each stage of a device (in model order) as ``acting`` runs backward.

    ``alive`` follows ``Schedule.stages_of`` the device.
    """

    acting: int
    alive: tuple[int, ...]


def moments(schedule: Schedule, device: int) -> tuple[Moment, ...]:
    """The moments of a device that some memory limit could make decisive."""
    return _moments(ByKey(schedule), device)


@lru_cache(maxsize=4096)
def _moments(keyed: ByKey, device: int) -> tuple[Moment, ...]:
    schedule = keyed.schedule
    stages = schedule.stages_of(device)
    order = schedule.order(device)
    backward = order[:, 0] == Work.BACKWARD
    here = order[:, 1][:, None] == np.array(stages)
    passed = np.cumsum(here & ~backward[:, None], axis=0)
    passed -= np.cumsum(here & backward[:, None], axis=0)
    before = passed + (here & backward[:, None])
    found: list[Moment] = []
    for stage in stages:
        acting = backward & (order[:, 1] == stage)
        vectors = np.unique(before[acting], axis=0)
        for vector in vectors:
            larger = (vectors >= vector).all(axis=1) & (vectors > vector).any(axis=1)
            if not larger.any():
                found.append(Moment(stage, tuple(vector.tolist())))
    return tuple(found)
