"""A bound of splits over stages that share devices: rows added to a relaxation till it is tight.

The relaxation (``relaxed_splits.py``) is solved and its stage times are simulated as they are. The
critical path is a row for all plans; so are those of times between the solution and the best plan,
which lie where the optimum will be (Ben-Ameur and Neto 2007, "Acceleration of cutting-plane and
column generation algorithms", call it in-out separation). First with blocks that may be divided,
then in branches in which they are whole (``split_branches.py``). Cuts of solutions, made whole, are
plans to try.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from solver.partition.candidates import Cut
from solver.partition.menu import Floats, Index
from solver.partition.relaxed_splits import RelaxedSplit, RelaxedSplits
from solver.partition.split_branches import SplitBranches
from solver.schedules import (
    Path,
    Schedule,
    StageTimes,
    Work,
    critical_path,
    schedule_graph,
    simulate,
)

BETWEEN = (1.0, 0.5, 0.2)
"""How far from the best plan to the solution the times lie whose critical paths become rows."""

BUMP = 0.02
"""How much slower one device is than in the even pipeline whose critical path is a first row."""


LEVELLED = 4
"""Solves after which the mixes of one split are good enough."""

QUICK, THOROUGH = 8, 80
"""Solves of a bound: where a quick one is asked for, and each time that a good one is."""


@dataclass(frozen=True)
class SplitsBound:
    """A bound of every plan's makespan, infinite if the relaxation already fits no memory.

    ``cuts`` are those of the solutions, made whole, the last first. ``done``: nothing is left that
    would raise it.
    """

    bound: float
    cuts: tuple[tuple[Cut, ...], ...]
    done: bool


class SplitRows:
    """A relaxation with the rows found so far.

    Args:
        relaxed: The relaxation, without rows.
        schedule: Whose paths are added.
        rows: Paths to begin with; those found are appended.
        deadline: When to stop, as ``time.monotonic``.
    """

    def __init__(
        self, relaxed: RelaxedSplits, schedule: Schedule, rows: list[Path], deadline: float
    ) -> None:
        self._relaxed, self._schedule, self._rows = relaxed, schedule, rows
        self._deadline = deadline
        self._branches = SplitBranches(relaxed)
        for path in rows:
            relaxed.add_path(path)

    def begin(self, known: StageTimes) -> None:
        """Critical paths of a plan, and of even pipelines in which one device is slower."""
        factors = np.ones((self._schedule.devices, self._schedule.stages))
        for device in range(self._schedule.devices):
            factors[device, self._schedule.stages_of(device)] += BUMP
        even = StageTimes.of(
            known.forward.mean() * factors,
            known.backward.mean() * factors,
            known.send,
            weight=None if known.weight is None else known.weight.mean() * factors,
            recompute=None if known.recompute is None else known.recompute.mean() * factors,
        )
        for times in (known, even):
            self._add_critical(times)

    def bound(self, known: StageTimes, target: float, solves: int) -> SplitsBound:
        """Add rows until the bound of all splits reaches ``target``; asked again it goes on.

        Args:
            known: Times of the best plan so far (one candidate).
            target: Seconds beyond which no better bound is of use.
            solves: How often the relaxation is solved at most.
        """
        cuts: list[tuple[Cut, ...]] = []
        done = False
        for _ in range(solves):
            left = self._deadline - time.monotonic()
            if left <= 0:
                break
            found = self._branches.step(
                target, left, lambda one: self._add_critical(_between(known, one.times))
            )
            if found is None:
                done = True
                break
            cuts.append(found.cuts)
        bound = self._branches.bound
        return SplitsBound(bound, tuple(dict.fromkeys(reversed(cuts))), done)

    def until(self, deadline: float) -> None:
        """When to stop from now on, as ``time.monotonic``."""
        self._deadline = deadline

    def level(self, counts: Index, buffers: list[float], known: StageTimes) -> RelaxedSplit | None:
        """The best way to keep and recompute in one split, of blocks that may be divided.

        None if that fits no memory, or time runs out first.

        Args:
            counts: Blocks of every kind per stage, shape (depth, kinds).
            buffers: Bytes that every stage rebuilds into.
            known: Times of a plan with these cuts (one candidate).
        """
        self._relaxed.hold(counts, buffers)
        best = None
        for _ in range(LEVELLED):
            left = self._deadline - time.monotonic()
            found = self._relaxed.solve(left) if left > 0 else None
            if not isinstance(found, RelaxedSplit):
                break
            best = found
            if not self._add_critical(_between(known, found.times)):
                break
        self._relaxed.release()
        return best

    def _add_critical(self, times: StageTimes) -> int:
        """Add the critical path of every candidate; how many are new."""
        simulation = simulate(schedule_graph(self._schedule), times)
        paths = [critical_path(simulation, one) for one in range(len(times.forward))]
        fresh = [path for path in dict.fromkeys(paths) if path not in self._rows]
        self._rows += fresh
        for path in fresh:
            self._relaxed.add_path(path)
        return len(fresh)


def _between(known: StageTimes, times: StageTimes) -> StageTimes:
    """Times of one candidate, and on the way to it from another."""
    share = np.array(BETWEEN)[:, None]

    def mixed(first: Floats, second: Floats) -> Floats:
        return np.asarray((1 - share) * first + share * second)

    return StageTimes(
        forward=mixed(known.forward, times.forward),
        backward=mixed(known.backward, times.backward),
        send=known.send,
        before_first=mixed(known.before_first, times.before_first),
        after_last=mixed(known.after_last, times.after_last),
        step=mixed(known.step, times.step),
        weight=mixed(known.of_work(Work.WEIGHT), times.of_work(Work.WEIGHT)),
        recompute=mixed(known.of_work(Work.RECOMPUTE), times.of_work(Work.RECOMPUTE)),
    )
