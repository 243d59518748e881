"""Candidate runs per stage, and the bounds that drop most of them before any program is solved.

With V stages over L blocks, stage s can start at block s + a and stop at s + 1 + b for
0 <= a <= b < W, W = L - V + 1: every other stage keeps at least one block. All arrays here have
shape (V, W, W) and are indexed [s, a, b]; where one stage stops at b the next starts at a = b.

A run is dropped when every plan that uses it is no faster than some limit. Three bounds, all on the
schedule's own-paths (``solver.partition.paths``): the run's own paths with the cheapest stages
before and after; the least bottleneck of the stages before; and of those after. Dropping runs
makes the others' bounds larger, so it is repeated until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from solver.partition.paths import OwnPaths
from solver.partition.runs import RunTotals, Signatures
from solver.schedules.simulate import Floats

Bools = npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64]
Cut = tuple[int, int]
"""A run [start, stop)."""


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Seconds of every candidate run; only ``backward`` depends on the stage's memory."""

    forward: Floats
    backward: Floats
    step: Floats
    before_first: Floats
    after_last: Floats

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.backward)

    def with_backward(self, backward: Floats) -> RunTimes:
        """The same runs with other backward times."""
        return replace(self, backward=backward)


def windows(signatures: Signatures, stages: int) -> Index:
    """The signature of every candidate run, -1 where start >= stop; shape (V, W, W)."""
    width = len(signatures.of_run) - stages
    stage = np.arange(stages)[:, None, None]
    start = np.arange(width)[None, :, None]
    stop = np.arange(width)[None, None, :]
    return np.asarray(signatures.of_run[stage + start, stage + 1 + stop])


def possible(runs: Index) -> Bools:
    """Runs of at least one block; the first stage starts and the last one stops the sequence."""
    alive = runs >= 0
    alive[0, 1:, :] = False
    alive[-1, :, :-1] = False
    return alive


def run_times(totals: RunTotals, runs: Index) -> RunTimes:
    """Times of every candidate run before any recompute."""
    return RunTimes(
        forward=totals.forward[runs],
        backward=totals.backward[runs],
        step=totals.step[runs],
        before_first=totals.before_first[runs],
        after_last=totals.after_last[runs],
    )


def sums_before(cost: Floats) -> Floats:
    """Least total of the stages before s that leave it to start at a; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[0, 0] = 0.0
    for stage, here in enumerate(cost):
        table[stage + 1] = (table[stage][:, None] + here).min(axis=0)
    return table


def sums_after(cost: Floats) -> Floats:
    """Least total of the stages s and later when s starts at a; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[-1, -1] = 0.0
    for stage in reversed(range(len(cost))):
        table[stage] = (cost[stage] + table[stage + 1]).min(axis=1)
    return table


def bottlenecks_before(cost: Floats) -> Floats:
    """Least of the largest cost among the stages before s; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[0, 0] = -np.inf
    for stage, here in enumerate(cost):
        table[stage + 1] = np.maximum(table[stage][:, None], here).min(axis=0)
    return table


def bottlenecks_after(cost: Floats) -> Floats:
    """Least of the largest cost among the stages s and later; shape (V + 1, W)."""
    table = np.full((len(cost) + 1, cost.shape[1]), np.inf)
    table[-1, -1] = -np.inf
    for stage in reversed(range(len(cost))):
        table[stage] = np.maximum(cost[stage], table[stage + 1]).min(axis=1)
    return table


def plan_bounds(times: RunTimes, paths: OwnPaths, alive: Bools) -> Floats:
    """For every run, a lower bound of the makespan of any plan of alive runs that uses it.

    Infinite for runs that are not alive or stand in no plan.
    """
    backward = np.where(alive, times.backward, 0.0)
    passes = np.where(alive, times.forward + backward, np.inf)
    before = sums_before(passes)[:-1, :, None]
    after = sums_after(passes)[1:, None, :]
    connected = np.isfinite(before) & np.isfinite(after) & alive
    before, after = (
        np.where(np.isfinite(before), before, 0.0),
        np.where(np.isfinite(after), after, 0.0),
    )
    # Every own-path starts with stage 0's first forward and ends with stage 0's last backward.
    ends = np.where(alive[0], times.before_first[0] + 0.0, np.inf).min()
    ends += np.where(alive[0], times.after_last[0], np.inf).min()
    bound = np.full(passes.shape, -np.inf)
    for family in paths.families:
        value = family.forward[:, None, None] * times.forward
        value += family.backward[:, None, None] * backward
        value += before
        if family.after:
            value += family.after * after
        value += family.seconds[:, None, None]
        np.maximum(bound, value, out=bound)
    bound += times.step
    bound += ends
    bound = np.where(connected, bound, np.inf)
    ahead, behind = bottlenecks_before(bound)[:-1, :, None], bottlenecks_after(bound)[1:, None, :]
    return np.asarray(np.maximum(np.maximum(bound, ahead), behind))


def cuts_of(choice: list[tuple[int, int]]) -> tuple[Cut, ...]:
    """Runs [start, stop) from [a, b] per stage."""
    return tuple((stage + a, stage + 1 + b) for stage, (a, b) in enumerate(choice))


def cheapest_plan(cost: Floats) -> tuple[Cut, ...]:
    """The plan of least total cost; () if there is none."""
    after = sums_after(cost)
    if not np.isfinite(after[0, 0]):
        return ()
    choice, start = [], 0
    for stage, here in enumerate(cost):
        stop = int(np.argmin(here[start] + after[stage + 1]))
        choice.append((start, stop))
        start = stop
    return cuts_of(choice)


def least_bottleneck_plan(bound: Floats, cost: Floats) -> tuple[Cut, ...]:
    """Of the plans of least bottleneck in ``bound``, the one of least total cost; () if none."""
    limit = float(bottlenecks_after(bound)[0, 0])
    return cheapest_plan(np.where(bound <= limit, cost, np.inf)) if np.isfinite(limit) else ()
