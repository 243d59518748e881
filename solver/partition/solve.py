"""The partition of one layout: the exact optimum, by bounds, a program and critical-path rows.

1. Menus: the least recompute time of every run on every stage, first as a bound, exact where it
   matters (``mix.py``).
2. A first plan: least bottleneck over cuts, then moves of single blocks, simulated exactly.
3. Candidates that cannot beat it are dropped (``candidates.py``). Often nothing is left: that is
   the proof.
4. Else the program (``program.py``) over what is left. Its T is a lower bound; the simulation of
   its cuts an upper bound. If they differ, the critical path becomes a row, and again.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import (
    Bools,
    RunTimes,
    least_bottleneck_before,
    least_sum_after,
    own_path_bounds,
    plan_bounds,
)
from solver.partition.menu import Menu, Mix
from solver.partition.paths import OwnPath, own_paths
from solver.partition.program import Cut, solve_program
from solver.partition.runs import Signatures, run_totals, signatures
from solver.schedules import (
    Path,
    Schedule,
    StageTimes,
    critical_path,
    schedule_graph,
    simulate,
)
from solver.schedules.simulate import Floats

EXACT = 1e-9
"""Relative improvement below which two makespans count as equal."""

SMALL = 400
"""Candidate runs up to which the program is solved to the end whatever gap was asked for."""

MOST_ROUNDS = 200
"""Rounds of critical-path rows; real cases take a handful, this only guards against rounding."""


@dataclass(frozen=True)
class Partition:
    """The best cuts and mixes of a layout, with their proof.

    ``makespan`` is the simulated time of one iteration; ``lower_bound`` is proved for every
    partition and recompute choice of this layout.
    """

    cuts: tuple[Cut, ...]
    mixes: tuple[Mix, ...]
    makespan: float
    lower_bound: float
    rows: int
    rounds: int
    engine: str


@dataclass(frozen=True)
class Infeasible:
    """No partition fits: the least shortfall over the partitions tried, and where."""

    stage: int
    missing_bytes: float
    needed_bytes: float


@dataclass(frozen=True)
class Dominated:
    """The layout was given up: nothing in it is faster than the cutoff."""

    lower_bound: float


def solve_partition(
    costs: PipelineCosts,
    menu: Menu,
    schedule: Schedule,
    *,
    relative_gap: float = 1e-4,
    time_limit_seconds: float = 30.0,
    cutoff: float = np.inf,
) -> Partition | Infeasible | Dominated:
    """The fastest partition of ``costs.sequence`` over the stages of ``schedule``.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among.
        schedule: A schedule with one stage per device.
        relative_gap: Proved distance to the optimum at which to stop (small cases go to the end).
        time_limit_seconds: Wall time after which the best so far is returned with its bound.
        cutoff: Makespan already reached elsewhere; give up as soon as nothing here can beat it.

    Returns:
        The optimum; or which stage misses how many bytes; or the bound at which it was given up.
    """
    return _Solver(costs, menu, schedule, relative_gap, time_limit_seconds, cutoff).solve()


class _Solver:
    def __init__(
        self,
        costs: PipelineCosts,
        menu: Menu,
        schedule: Schedule,
        relative_gap: float,
        time_limit_seconds: float,
        cutoff: float,
    ) -> None:
        self.costs, self.schedule = costs, schedule
        self.relative_gap, self.cutoff = relative_gap, cutoff
        self.deadline = time.monotonic() + time_limit_seconds
        self.stages, self.length = schedule.stages, len(costs.sequence)
        self.signatures: Signatures = signatures(costs.sequence, len(costs.blocks))
        self.totals = run_totals(costs, self.signatures.counts)
        self.menu = menu
        self.in_flight = [schedule.in_flight(stage) for stage in range(self.stages)]
        self.graph = schedule_graph(schedule)
        self.best: tuple[float, tuple[Cut, ...]] = (np.inf, ())
        self.pruned_at = np.inf  # every dropped run's plans are at least this slow
        self.paths: list[Path] = []
        self.rounds = 0

    # -- menus ------------------------------------------------------------------------------

    def _run_times(self) -> tuple[RunTimes, Bools]:
        """Optimistic times of all runs, and which of them fit."""
        of_run = self.signatures.of_run
        distinct, which = np.unique(self.in_flight, return_inverse=True)
        recompute = self.menu.bounds(self.signatures.counts, self.totals.states, distinct)
        recompute = np.concatenate([recompute, np.full((len(distinct), 1), np.inf)], axis=1)

        def spread(values: Floats) -> Floats:
            """A value per signature as (stages, start, stop); -1, no run, takes the last entry."""
            padded = np.append(values, 0.0)
            return np.broadcast_to(padded[of_run], (self.stages, *of_run.shape))

        extra = recompute[which][:, of_run]
        alive = np.isfinite(extra)
        alive &= self._reachable()
        backward = np.where(alive, spread(self.totals.backward) + extra, np.inf)
        times = RunTimes(
            forward=spread(self.totals.forward),
            backward=backward,
            step=spread(self.totals.step),
            before_first=spread(self.totals.before_first),
            after_last=spread(self.totals.after_last),
        )
        return times, alive

    def _reachable(self) -> Bools:
        """Runs that leave at least one block to every other stage."""
        stage = np.arange(self.stages)[:, None, None]
        start = np.arange(self.length + 1)[None, :, None]
        stop = np.arange(self.length + 1)[None, None, :]
        after = self.stages - 1 - stage
        possible = (start >= stage) & (stop <= self.length - after) & (start < stop)
        possible &= (stage > 0) | (start == 0)
        return np.asarray(possible & ((after > 0) | (stop == self.length)))

    def _mix(self, stage: int, cut: Cut) -> Mix | None:
        signature = int(self.signatures.of_run[cut])
        counts = tuple(self.signatures.counts[signature].tolist())
        states = float(self.totals.states[signature])
        return self.menu.cheapest(counts, states, self.in_flight[stage])

    # -- plans ------------------------------------------------------------------------------

    def _stage_times(self, plans: list[tuple[Cut, ...]]) -> StageTimes:
        """Exact times of complete plans, shape (plans, stages); infinite where one cannot fit."""
        chosen = np.array([[self.signatures.of_run[cut] for cut in plan] for plan in plans])
        recompute = np.array(
            [
                [
                    mix.seconds if (mix := self._mix(stage, cut)) is not None else np.inf
                    for stage, cut in enumerate(plan)
                ]
                for plan in plans
            ]
        )
        totals = self.totals
        return StageTimes(
            forward=totals.forward[chosen],
            backward=totals.backward[chosen] + recompute,
            send=self.costs.send_seconds,
            before_first=totals.before_first[chosen],
            after_last=totals.after_last[chosen],
            step=totals.step[chosen],
        )

    def _try(self, plans: list[tuple[Cut, ...]]) -> bool:
        """Simulate plans; remember the best. Whether it improved."""
        makespans = simulate(self.graph, self._stage_times(plans)).makespan
        at = int(np.argmin(makespans))
        if makespans[at] < self.best[0] * (1 - EXACT):
            self.best = (float(makespans[at]), plans[at])
            return True
        return False

    def _improve(self) -> None:
        """Move single blocks over the cuts while that helps."""
        while time.monotonic() < self.deadline:
            cuts = [start for start, _ in self.best[1][1:]]
            neighbours = []
            for i in range(len(cuts)):
                for step in (-1, 1):
                    moved = [*cuts[:i], cuts[i] + step, *cuts[i + 1 :]]
                    edges = [0, *moved, self.length]
                    if all(a < b for a, b in itertools.pairwise(edges)):
                        neighbours.append(tuple(itertools.pairwise(edges)))
            if not neighbours or not self._try(neighbours):
                return

    # -- the story --------------------------------------------------------------------------

    def solve(self) -> Partition | Infeasible | Dominated:
        if self.length < self.stages:
            raise ValueError("fewer blocks than stages")
        times, alive = self._run_times()
        own = own_paths(self.schedule, self.costs.send_seconds)
        bounds = plan_bounds(own_path_bounds(times, own, alive))
        root = float(bounds.min()) if alive.any() else np.inf
        if not np.isfinite(root):
            return self._shortfall()
        if root >= self.cutoff:
            return Dominated(root)
        self._first_plans(times, bounds)
        alive = self._drop(alive, bounds)
        times, alive = self._exact(times, alive, own)
        self.paths = [path.path(self.stages) for stage in own for path in stage]
        bound = self._rows(times, alive) if alive.any() else np.inf
        lower = max(root, min(bound, self.pruned_at, self.best[0]))
        if not self.best[1]:
            return Dominated(lower) if np.isfinite(lower) else self._shortfall()
        if lower >= self.cutoff:
            return Dominated(lower)
        return self._answer(lower)

    def _limit(self) -> float:
        """Makespan that a plan must beat to matter."""
        return min(self.best[0] * (1 - EXACT), self.cutoff)

    def _first_plans(self, times: RunTimes, bounds: Floats) -> None:
        """Plans of least bottleneck, and of least sum within that bottleneck; then local moves."""
        plans = {_cheapest_within(bounds, bounds)}
        loads = times.forward + times.backward
        least = float(least_bottleneck_before(bounds)[-1, -1])
        for slack in (1.0, 1.01, 1.05):
            plans.add(_cheapest_within(loads, np.where(bounds <= least * slack, bounds, np.inf)))
        found = sorted(plan for plan in plans if plan)
        if found and self._try(found):
            self._improve()

    def _drop(self, alive: Bools, bounds: Floats) -> Bools:
        """Drop runs whose plans are all too slow; remember how slow the fastest dropped may be."""
        limit = self._limit()
        dropped = alive & (bounds >= limit)
        if dropped.any():
            self.pruned_at = min(self.pruned_at, float(bounds[dropped].min()))
        return alive & ~dropped

    def _exact(
        self, times: RunTimes, alive: Bools, own: list[list[OwnPath]]
    ) -> tuple[RunTimes, Bools]:
        """Replace optimistic recompute times by exact ones where still alive, and drop again."""
        exact: set[tuple[int, int, int]] = set()
        backward = times.backward.copy()
        while True:
            fresh = [
                (stage, start, stop)
                for stage, start, stop in zip(*(a.tolist() for a in np.nonzero(alive)), strict=True)
                if (stage, start, stop) not in exact
            ]
            for stage, start, stop in fresh:
                mix = self._mix(stage, (start, stop))
                base = self.totals.backward[self.signatures.of_run[start, stop]]
                backward[stage, start, stop] = np.inf if mix is None else base + mix.bound
                alive[stage, start, stop] = mix is not None
            exact.update(fresh)
            times = RunTimes(
                times.forward, backward, times.step, times.before_first, times.after_last
            )
            if not alive.any():
                return times, alive
            before = int(alive.sum())
            alive = self._drop(alive, plan_bounds(own_path_bounds(times, own, alive)))
            if int(alive.sum()) == before and not fresh:
                return times, alive
            if int(alive.sum()) == before:
                return times, alive

    def _rows(self, times: RunTimes, alive: Bools) -> float:
        """Solve, simulate, add the critical path; the last program's bound."""
        gap = EXACT if int(alive.sum()) <= SMALL else self.relative_gap
        bound = 0.0
        for _ in range(MOST_ROUNDS):
            left = self.deadline - time.monotonic()
            if left <= 0:
                break
            self.rounds += 1
            result = solve_program(times, alive, self.paths, self.costs.send_seconds, gap, left)
            bound = max(bound, result.bound)
            if result.cuts is None or bound >= self._limit():
                break
            simulation = simulate(self.graph, self._stage_times([result.cuts]))
            makespan = float(simulation.makespan[0])
            if makespan < self.best[0] * (1 - EXACT):
                self.best = (makespan, result.cuts)
            if bound >= self.best[0] * (1 - max(gap, EXACT)):
                break
            path = critical_path(simulation)
            if path in self.paths:
                break
            self.paths.append(path)
        return bound

    def _answer(self, lower: float) -> Partition:
        makespan, cuts = self.best
        mixes = [self._mix(stage, cut) for stage, cut in enumerate(cuts)]
        return Partition(
            cuts=cuts,
            mixes=tuple(mix for mix in mixes if mix is not None),
            makespan=makespan + self.costs.fixed_seconds,
            lower_bound=min(lower, makespan) + self.costs.fixed_seconds,
            rows=len(self.paths),
            rounds=self.rounds,
            engine="highs" if self.rounds else "bounds",
        )

    def _shortfall(self) -> Infeasible:
        """Under least memory everywhere: the partition whose worst stage misses least."""
        needed = self._least_needed()
        alive = self._reachable()
        cost = np.where(alive, needed[:, self.signatures.of_run], np.inf)
        plan = _cheapest_within(cost, cost)
        usage = [float(cost[stage, start, stop]) for stage, (start, stop) in enumerate(plan)]
        worst = int(np.argmax(usage))
        return Infeasible(worst, usage[worst] - self.costs.capacity_bytes, usage[worst])

    def _least_needed(self) -> Floats:
        """Bytes that a stage needs at least, shape (stages, signatures + 1)."""
        needed = self.menu.least_bytes(
            self.signatures.counts, self.totals.states, np.array(self.in_flight)
        )
        return np.concatenate([needed, np.full((self.stages, 1), np.inf)], axis=1)


def _cheapest_within(cost: Floats, bound: Floats) -> tuple[Cut, ...]:
    """Cuts of least total ``cost`` among runs of finite ``bound`` and least bottleneck; () if none.

    With ``cost is bound`` the largest cost is minimised instead of the sum.
    """
    if cost is bound:
        limit = float(least_bottleneck_before(bound)[-1, -1])
        if not np.isfinite(limit):
            return ()
        bound = np.where(bound <= limit, bound, np.inf)
    allowed = np.where(np.isfinite(bound), cost, np.inf)
    after = least_sum_after(allowed)
    if not np.isfinite(after[0, 0]):
        return ()
    cuts, start = [], 0
    for stage in range(len(allowed)):
        stop = int(np.argmin(allowed[stage, start] + after[stage + 1]))
        cuts.append((start, stop))
        start = stop
    return tuple(cuts)
