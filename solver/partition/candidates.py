"""Candidate runs per stage, and the bounds that drop most of them before any program is solved.

Times are dense: shape (stages, L + 1, L + 1), infinite where stage s cannot hold [start, stop).
A run is dropped when every plan that uses it is no faster than one already known. Three bounds, all
on the schedule's own-paths (``solver.partition.paths``): the run's own paths with the cheapest
stages before and after; the least bottleneck of the stages before; and of those after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.partition.paths import OwnPath
from solver.schedules.simulate import Floats

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Seconds of every candidate run of every stage, shape (stages, L + 1, L + 1).

    Only ``backward`` depends on the stage through the recompute that its memory asks for; a run
    that the stage cannot hold is infinite there.
    """

    forward: Floats
    backward: Floats
    step: Floats
    before_first: Floats
    after_last: Floats

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.backward)

    @property
    def length(self) -> int:
        """Number of blocks in the sequence."""
        return int(self.backward.shape[1]) - 1


def least_sum_before(cost: Floats) -> Floats:
    """Least total of stages 0 .. s - 1 covering blocks 0 .. i - 1; shape (stages + 1, L + 1)."""
    stages, width = cost.shape[0], cost.shape[1]
    table = np.full((stages + 1, width), np.inf)
    table[0, 0] = 0.0
    for stage in range(stages):
        table[stage + 1] = (table[stage][:, None] + cost[stage]).min(axis=0)
    return table


def least_sum_after(cost: Floats) -> Floats:
    """Least total of stages s .. covering blocks i .. L - 1; shape (stages + 1, L + 1)."""
    stages, width = cost.shape[0], cost.shape[1]
    table = np.full((stages + 1, width), np.inf)
    table[stages, width - 1] = 0.0
    for stage in reversed(range(stages)):
        table[stage] = (cost[stage] + table[stage + 1][None, :]).min(axis=1)
    return table


def least_bottleneck_before(cost: Floats) -> Floats:
    """Least of the largest cost among stages 0 .. s - 1 covering blocks 0 .. i - 1."""
    stages, width = cost.shape[0], cost.shape[1]
    table = np.full((stages + 1, width), np.inf)
    table[0, 0] = 0.0
    for stage in range(stages):
        table[stage + 1] = np.maximum(table[stage][:, None], cost[stage]).min(axis=0)
    return table


def least_bottleneck_after(cost: Floats) -> Floats:
    """Least of the largest cost among stages s .. covering blocks i .. L - 1."""
    stages, width = cost.shape[0], cost.shape[1]
    table = np.full((stages + 1, width), np.inf)
    table[stages, width - 1] = 0.0
    for stage in reversed(range(stages)):
        table[stage] = np.maximum(cost[stage], table[stage + 1][None, :]).min(axis=1)
    return table


def own_path_bounds(times: RunTimes, paths: list[list[OwnPath]], alive: Bools) -> Floats:
    """For every run, a lower bound of the makespan of any plan that uses it.

    Shape (stages, L + 1, L + 1); infinite for runs that are not alive.
    """
    passes = np.where(alive, times.forward + times.backward, np.inf)
    before, after = least_sum_before(passes), least_sum_after(passes)
    # Every own-path starts with stage 0's first forward and ends with stage 0's last backward.
    ends = np.where(alive[0], times.before_first[0], np.inf).min()
    ends += np.where(alive[0], times.after_last[0], np.inf).min()
    bound = np.full(passes.shape, np.inf)
    for stage, own in enumerate(paths):
        here = np.full(passes.shape[1:], -np.inf)
        forward, backward = times.forward[stage], times.backward[stage]
        ahead, behind = before[stage][:, None], after[stage + 1][None, :]
        for path in own:
            value = path.forward * forward + path.backward * backward + path.sends_seconds
            value = value + ahead * path.before + (behind * path.after if path.after else 0.0)
            np.maximum(here, value, out=here)
        here = np.where(np.isfinite(ahead) & np.isfinite(behind), here, np.inf)
        bound[stage] = here + times.step[stage] + ends
    return np.where(alive, bound, np.inf)


def plan_bounds(bound: Floats) -> Floats:
    """Tighten each run's bound by the least bottleneck that the other stages must then have."""
    before, after = least_bottleneck_before(bound), least_bottleneck_after(bound)
    return np.asarray(np.maximum(np.maximum(bound, before[:-1][:, :, None]), after[1:][:, None, :]))
