"""The best plan found so far of a pipeline with one stage per device, and where others come from.

A plan is its cuts; what its stages recompute follows from them (``lookup.py``), and its makespan is
simulated.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from solver.partition.candidates import (
    Candidates,
    Cut,
    bottlenecks_after,
    cheapest_plan,
    least_bottleneck_plan,
)
from solver.partition.lookup import RunLookup
from solver.partition.menu import Floats
from solver.partition.moves import neighbours
from solver.partition.outcome import EXACT
from solver.partition.paths import OwnPaths
from solver.partition.plan_bounds import plan_bounds
from solver.partition.timings import timed
from solver.schedules import Schedule, makespans

SPLITS = 3
"""Splits that are looked at before anything is bounded."""

SLACKS = (1.0, 1.01, 1.05)
"""How far above the least bottleneck, relative to it, first plans of least sum may go."""


class BestPlan:
    """The fastest of all plans offered; ``makespan`` is infinite until one fits.

    Args:
        runs: What every run takes on every stage.
        schedule: A schedule with one stage per device.
        own: Its own-paths.
    """

    def __init__(self, runs: RunLookup, schedule: Schedule, own: OwnPaths) -> None:
        self._runs, self._schedule, self._own = runs, schedule, own
        self.makespan = np.inf
        self.cuts: tuple[Cut, ...] = ()
        self._simple: tuple[Cut, ...] = ()

    def offer(self, plans: list[tuple[Cut, ...]], bounds: Sequence[float] | None = None) -> bool:
        """Simulate plans; remember the best. Whether it improved.

        ``bounds``: seconds that each plan takes at least. The most promising one then comes first,
        and those that cannot beat it are left out: what they recompute need not be known.
        """
        if not plans:
            return False
        if bounds is None or len(plans) == 1:
            return self._simulated(plans)
        first = min(range(len(plans)), key=bounds.__getitem__)
        found = self._simulated([plans[first]])
        limit = self.makespan * (1 - EXACT)
        others = [plan for at, plan in enumerate(plans) if at != first and bounds[at] < limit]
        return bool(others and self._simulated(others)) or found

    def _simulated(self, plans: list[tuple[Cut, ...]]) -> bool:
        seconds = makespans(self._schedule, self._runs.stage_times(plans))
        at = int(np.argmin(seconds))
        return self.keep(float(seconds[at]), plans[at])

    def keep(self, makespan: float, cuts: tuple[Cut, ...]) -> bool:
        """Remember a simulated plan if it is the best. Whether it is."""
        if makespan >= self.makespan * (1 - EXACT):
            return False
        self.makespan, self.cuts = makespan, cuts
        return True

    def try_first(self, candidates: Candidates, bounds: Floats) -> None:
        """Plans of least bottleneck, and of least sum within a little more than that."""
        least = float(bounds.min())
        alive = candidates.alive & (bounds <= least * SLACKS[-1])
        if int(alive.sum()) < int(candidates.alive.sum()):
            candidates = candidates.keeping(alive)
            bounds = plan_bounds(candidates, self._own)
        loads = candidates.forward + candidates.backward + candidates.recompute
        least = float(bottlenecks_after(bounds)[0, 0])
        plans = {least_bottleneck_plan(candidates, bounds, bounds)}
        for slack in SLACKS:
            within = np.where(bounds <= least * slack, loads, np.inf)
            plans.add(cheapest_plan(candidates, within))
        found = sorted(plan for plan in plans if plan)
        self.offer(found, [_slowest_run(plan, candidates, bounds) for plan in found])

    def try_cautious(self, candidates: Candidates) -> None:
        """A plan of least bottleneck as if every block took its slowest choice."""
        slowest = self._runs.slowest(candidates)
        slow = candidates.with_backward(candidates.backward + slowest)
        bounds = plan_bounds(slow, self._own)
        plan = least_bottleneck_plan(slow, bounds, bounds)
        self.offer([plan] if plan else [])

    def improve(self, candidates: Candidates, limit: Callable[[], float], deadline: float) -> None:
        """Move blocks between stages, judged by the own-paths first, while that helps.

        Args:
            candidates: The runs in question.
            limit: The makespan that a plan must beat to matter, as it is by then.
            deadline: When to stop, as ``time.monotonic``.
        """
        while self.cuts and time.monotonic() < deadline:
            steps = (1, 2) if self._runs.times_recompute else (1,)
            plans, bounds = neighbours(self.cuts, candidates, self._own, limit(), steps)
            if not self.offer(plans, bounds):
                return

    def surely_reached(self) -> float:
        """Makespan that the best of some simple splits does not exceed; infinite if none fits.

        Stages take as long without recompute, and then with as much of it as those before; or if
        they do not fit, hold as many blocks.
        """
        shares = np.ones(self._schedule.stages)
        least, found = np.inf, None
        for _ in range(SPLITS):
            split = self._runs.split(shares)
            cautious = self._runs.cautious_times(split)
            if cautious is None:
                break
            times, shares = cautious
            longest = float((times.forward + times.backward).max())
            if longest >= least:
                break
            least, found, self._simple = longest, times, split
        if found is None:
            cautious = self._runs.cautious_times(self._even_plan())
            if cautious is None:
                return np.inf
            found, self._simple = cautious[0], self._even_plan()
        return float(makespans(self._schedule, found)[0])

    def try_simple(self) -> None:
        """The split that ``surely_reached`` is of."""
        self.offer([self._simple] if self._simple else [])

    def _even_plan(self) -> tuple[Cut, ...]:
        """Equal numbers of blocks."""
        edges = np.linspace(0, self._runs.blocks, self._schedule.stages + 1)
        plain = tuple(itertools.pairwise(edges.round().astype(int).tolist()))
        return timed(plain) if self._runs.times_recompute else plain


def _slowest_run(plan: tuple[Cut, ...], candidates: Candidates, bounds: Floats) -> float:
    """Seconds that a plan takes at least, by those of its runs."""
    of_runs = [bounds[stage, *candidates.index(stage, cut)] for stage, cut in enumerate(plan)]
    return float(max(of_runs))
