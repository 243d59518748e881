"""The partition of one layout: the exact optimum, by bounds, a program and critical-path rows.

1. Menus: the least recompute time of every run on every stage, first as a bound, exact where it
   matters (``menu.py``).
2. First plans: least bottleneck over cuts, then moves of blocks, simulated exactly.
3. Candidates that cannot beat the best plan are dropped (``candidates.py``). Often nothing is left:
   that is the proof.
4. Of few plans left each is simulated.
5. Else the program (``program.py``) over what is left. Its T is a lower bound; the simulation of
   its cuts an upper bound. If they differ, the critical path becomes a row, and again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.best_plan import BestPlan
from solver.partition.candidates import (
    Bools,
    Candidates,
    Cut,
    Index,
    all_plans,
    least_bottleneck_plan,
)
from solver.partition.lookup import RunLookup
from solver.partition.menu import Floats, Menu
from solver.partition.outcome import (
    EXACT,
    MOST_ROUNDS,
    NOT_ADMITTED,
    Dominated,
    Infeasible,
    Partition,
)
from solver.partition.paths import own_paths
from solver.partition.plan_bounds import plan_bounds
from solver.partition.program import PartitionProgram, program_unit
from solver.partition.timings import untimed
from solver.partition.walk_search import WalkSearch
from solver.schedules import (
    OneForwardOneBackward,
    Path,
    Schedule,
    critical_path,
    makespans,
    schedule_graph,
    simulate,
)

SOME_TIME = 1e-290
"""A makespan that even a pipeline of no work at all stays below."""

SMALL = 400
"""Candidate runs up to which the program is solved to the end, unless a wide gap was asked for."""

WIDE = 1e-3
"""A relative gap from which on nothing is solved beyond it, however small."""

DEEP = 4
"""Blocks per stage up to which walks are the first bounds to look at."""

FEW_PLANS = 64
"""Plans that are simulated one by one rather than told to a program."""

SQUEEZES = 6
"""Halvings of the distance between bound and best plan before a program is made."""

LARGE = 800
"""Candidate runs beyond which the program's relaxation proves less than the bounds already do.

In deep pipelines, whose stages are many, ``SMALL`` of them.
"""


class PartitionProblem:
    """One layout's partition, bounded when made and solved when asked.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among.
        schedule: A schedule with one stage per device.
        admits: Which counts of blocks a stage may hold, shape (runs, kinds); None: any.

    ``bound`` is a proved lower bound of every plan's iteration time, infinite if nothing fits.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: Menu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
    ) -> None:
        if len(costs.sequence) < schedule.stages:
            raise ValueError("fewer blocks than stages")
        self._costs, self._schedule = costs, schedule
        self._runs = RunLookup(costs, menu, schedule, admits)
        self._own = own_paths(schedule, costs.send_seconds)
        self._best = BestPlan(self._runs, schedule, self._own)
        # A plan of this makespan is surely there: runs that take longer by themselves are never
        # made. Every plan with a dropped run is at least as slow as ``_pruned_at``.
        self._surely = self._pruned_at = max(self._best.surely_reached() * (1 + EXACT), SOME_TIME)
        candidates = self._runs.candidates(self._surely / schedule.micro_batches)
        capacity = self._runs.capacity_bytes[:, None, None]
        fits = self._runs.least_bytes(candidates) <= capacity * (1 + 1e-12)
        self._candidates = replace(candidates, alive=candidates.alive & fits)
        self._bounded_last: tuple[Candidates, Floats] | None = None
        self._bounds = self._bounds_of(self._candidates)
        self._rows: list[Path] = []
        self._rounds = 0
        self._nodes: int | None = None
        self.cut_short = False

    @property
    def schedule(self) -> Schedule:
        """The schedule whose stages are filled."""
        return self._schedule

    @property
    def bound(self) -> float:
        """Proved for every plan of this layout, recompute left out."""
        return min(float(self._bounds.min()), self._pruned_at) + self._costs.fixed_seconds

    def solve(
        self,
        *,
        relative_gap: float = 1e-4,
        time_limit_seconds: float = 30.0,
        cutoff: float = np.inf,
        most_nodes: int | None = None,
    ) -> Partition | Infeasible | Dominated:
        """The fastest partition.

        Args:
            relative_gap: Proved distance to the optimum at which to stop (small cases go on where
                that is little).
            time_limit_seconds: Wall time after which the best so far is returned with its bound.
            cutoff: Iteration time reached elsewhere; give up as soon as nothing can beat it.
            most_nodes: Nodes of programs' search trees after which the same is done; unlike time
                they are the same on every machine. ``cut_short`` says whether they were spent.

        Returns:
            The optimum; or which stage misses how many bytes; or the bound at which it was given
            up.
        """
        self._deadline = time.monotonic() + time_limit_seconds
        self._cutoff = cutoff - self._costs.fixed_seconds
        self._nodes, self.cut_short = most_nodes, False
        root = self.bound - self._costs.fixed_seconds
        if not np.isfinite(root):
            return self._shortfall()
        if root >= self._cutoff:
            return Dominated(self.bound)
        bound = self._narrow_and_solve(relative_gap)
        if not self._best.cuts and not np.isfinite(cutoff):
            self._best.try_simple()
        lower = max(root, min(bound, self._pruned_at, self._best.makespan))
        if lower >= self._cutoff or not self._best.cuts:
            return Dominated(lower + self._costs.fixed_seconds)
        return self._answer(lower)

    def _narrow_and_solve(self, relative_gap: float) -> float:
        """Steps 1 to 5; a bound of every plan that was not dropped."""
        candidates = self._candidates
        if not np.isfinite(self._surely):
            self._best.try_cautious(candidates)
        candidates = self._drop(candidates, times=1)
        candidates = self._runs.optimistic(candidates)
        if self._limit() < self._surely:
            candidates = self._drop(candidates)
        if int(candidates.alive.sum()) <= candidates.stages:
            return self._simulated(all_plans(candidates, 1) or [])
        bound, most = 0.0, LARGE
        if self._is_deep(candidates):
            most = SMALL
            bound, candidates = self._walked(candidates, relative_gap)
            if bound >= min(self._best.makespan * (1 - relative_gap), self._cutoff):
                return bound
        else:
            self._best.try_first(candidates, self._bounds_of(candidates))
            self._best.improve(candidates, self._limit, self._deadline)
        candidates = self._exact(self._drop(candidates))
        if candidates.alive.any():
            self._best.try_first(candidates, self._bounds_of(candidates))
            candidates = self._drop(candidates)
        if not candidates.alive.any():
            return np.inf
        walked, candidates = self._bounded(candidates, relative_gap)
        bound = max(bound, walked)
        if relative_gap >= WIDE and bound >= self._best.makespan * (1 - relative_gap):
            return bound
        if not 0 < int(candidates.alive.sum()) <= most or bound >= self._limit():
            return bound
        plans = all_plans(candidates, FEW_PLANS)
        if plans is None:
            return max(bound, self._add_rows(candidates, relative_gap))
        return max(bound, self._simulated(plans))

    def _exact(self, candidates: Candidates) -> Candidates:
        """Exact recompute times of the runs still alive, and what they leave alive."""
        seen: set[tuple[int, Cut]] = set()
        while True:
            backward, recompute = candidates.backward.copy(), candidates.recompute.copy()
            fresh = 0
            unknown = candidates.alive & ~self._runs.known(candidates)
            for at in zip(*(axis.tolist() for axis in np.nonzero(unknown)), strict=True):
                run = (at[0], candidates.cut(*at))
                if run not in seen:
                    mix = self._runs.mix(*run)
                    seconds = np.inf if mix is None else mix.bound
                    if self._runs.is_ahead(candidates.runs[at]):
                        recompute[at] = seconds
                    else:
                        backward[at] = self._runs.plain_backward(candidates.runs[at]) + seconds
                    seen.add(run)
                    fresh += 1
            if not fresh:
                return candidates
            timed_too = recompute if self._runs.times_recompute else None
            candidates = self._drop(candidates.with_backward(backward, timed_too))

    # -- bounds -----------------------------------------------------------------------------

    def _limit(self) -> float:
        """Makespan that a plan must beat to matter."""
        return min(self._best.makespan * (1 - EXACT), self._cutoff, self._surely)

    def _bounds_of(self, candidates: Candidates) -> Floats:
        """``plan_bounds``; those of the same candidates as before are known."""
        if self._bounded_last is None or self._bounded_last[0] is not candidates:
            self._bounded_last = candidates, plan_bounds(candidates, self._own)
        return self._bounded_last[1]

    def _drop(self, candidates: Candidates, times: int = MOST_ROUNDS) -> Candidates:
        """Drop runs whose plans are all too slow, until nothing changes."""
        limit = self._limit()
        for _ in range(times):
            if not candidates.alive.any():
                break
            bounds = self._bounds_of(candidates)
            kept = candidates.alive & (bounds < limit)
            dropped = bounds[candidates.alive & ~kept]
            if not dropped.size:
                break
            self._pruned_at = min(self._pruned_at, max(float(dropped.min()), limit))
            candidates = candidates.keeping(kept)
        return candidates

    def _squeeze(self, candidates: Candidates) -> float:
        """The largest limit, nearly, below which the own-paths leave no plan; a lower bound."""
        low, high = float(self._bounds_of(candidates).min()), self._limit()
        for _ in range(SQUEEZES):
            middle = (low + high) / 2
            left = candidates
            while left.alive.any():
                kept = left.alive & (plan_bounds(left, self._own) < middle)
                if int(kept.sum()) == int(left.alive.sum()):
                    break
                left = left.keeping(kept)
            if left.alive.any():
                high = middle
            else:
                low = middle
        return low

    def _has_walks(self) -> bool:
        plain = type(self._schedule) is OneForwardOneBackward
        return plain and bool(np.isfinite(self._limit()))

    def _is_deep(self, candidates: Candidates) -> bool:
        """Whether stages are so short, and so many, that walks are the first thing to look at."""
        short = len(self._costs.sequence) <= DEEP * self._schedule.stages
        return short and self._has_walks() and int(candidates.alive.sum()) > SMALL

    def _bounded(self, candidates: Candidates, relative_gap: float) -> tuple[float, Candidates]:
        """A bound and the runs of plans below the best one: by walks, where the schedule has them.

        Small cases, which are solved to the end, are not bounded by walks.
        """
        if not self._has_walks():
            return self._squeeze(candidates), candidates
        if int(candidates.alive.sum()) > SMALL:
            return self._walked(candidates, relative_gap)
        candidates = self._seen(self._walks().left(candidates, EXACT))
        if not candidates.alive.any():
            limit = self._limit()
            ours = limit == self._best.makespan * (1 - EXACT)
            return self._best.makespan if ours else limit, candidates
        return self._squeeze(candidates), candidates

    def _walked(self, candidates: Candidates, relative_gap: float) -> tuple[float, Candidates]:
        """A bound of all plans by walks, and the runs of those below the best one."""
        low = float(self._bounds_of(candidates).min())
        bound, candidates = self._walks().narrow(candidates, low, relative_gap)
        return bound, self._seen(candidates)

    def _walks(self) -> WalkSearch:
        return WalkSearch(
            self._schedule,
            self._costs.send_seconds,
            self._best,
            self._limit,
            self._deadline,
            asked_first=math.isfinite(self._cutoff),
        )

    def _seen(self, candidates: Candidates) -> Candidates:
        """Runs that walks left: plans of others may be as fast as a limit that others reached."""
        if self._limit() < self._best.makespan * (1 - EXACT):
            self._pruned_at = min(self._pruned_at, self._limit())
        return candidates

    def _simulated(self, plans: list[tuple[Cut, ...]]) -> float:
        """Simulate the only plans that are left; a bound of them all."""
        if not plans:
            return np.inf
        times, least = (self._runs.stage_times(plans, least=part) for part in (False, True))
        seconds = makespans(self._schedule, times)
        at = int(seconds.argmin())
        self._best.keep(float(seconds[at]), plans[at])
        if not times.same_passes(least):
            seconds = makespans(self._schedule, least)
        return float(seconds.min())

    def _add_rows(self, candidates: Candidates, relative_gap: float) -> float:
        """Solve, simulate, add the critical path, again; the best bound proved."""
        gap = EXACT if int(candidates.alive.sum()) <= SMALL else relative_gap
        self._rows = self._own.paths()
        unit = program_unit(self._best.makespan, float(self._bounds_of(candidates).min()))
        program = PartitionProgram(candidates, self._costs.send_seconds, unit)
        program.add(self._rows)
        bound = 0.0
        for _ in range(MOST_ROUNDS):
            left = self._deadline - time.monotonic()
            self.cut_short = self._nodes is not None and self._nodes <= 0
            if left <= 0 or self.cut_short:
                break
            self._rounds += 1
            result = program.solve(gap, left, self._nodes)
            if self._nodes is not None:
                self._nodes -= max(program.nodes, 1)
            bound = max(bound, result.bound)
            if result.cuts is None or bound >= self._limit():
                break
            simulation = simulate(
                schedule_graph(self._schedule), self._runs.stage_times([result.cuts])
            )
            makespan = float(simulation.makespan[0])
            self._best.keep(makespan, result.cuts)
            reached = min(bound, self._pruned_at)
            if reached >= self._best.makespan * (1 - max(gap, EXACT)):
                break
            path = critical_path(simulation)
            if path in self._rows:
                break
            self._rows.append(path)
            program.add([path])
        return bound

    # -- answers ----------------------------------------------------------------------------

    def _answer(self, lower: float) -> Partition:
        makespan, cuts = self._best.makespan, self._best.cuts
        mixes = [self._runs.mix(stage, cut) for stage, cut in enumerate(cuts)]
        ahead: tuple[bool, ...] = ()
        if self._runs.times_recompute:
            cuts, ahead = untimed(cuts)
        fixed = self._costs.fixed_seconds
        return Partition(
            cuts=cuts,
            mixes=tuple(mix for mix in mixes if mix is not None),
            makespan=makespan + fixed,
            lower_bound=min(lower, makespan) + fixed,
            rows=len(self._rows),
            rounds=self._rounds,
            engine="highs" if self._rounds else "bounds",
            ahead=ahead,
        )

    def _shortfall(self) -> Infeasible:
        """Under least memory everywhere: the partition whose worst stage misses least."""
        everything = self._runs.candidates()
        needed = np.where(everything.alive, self._runs.least_bytes(everything), np.inf)
        missing = needed - self._runs.capacity_bytes[:, None, None]
        plan = least_bottleneck_plan(everything, missing, missing)
        if not plan:
            return NOT_ADMITTED
        lacks = [
            (float(missing[stage, a, b]), float(needed[stage, a, b]))
            for stage, cut in enumerate(plan)
            for a, b in [everything.index(stage, cut)]
        ]
        worst = max(range(len(lacks)), key=lambda stage: lacks[stage][0])
        return Infeasible(worst, *lacks[worst])


def solve_partition(
    costs: PipelineCosts, menu: Menu, schedule: Schedule, **limits: Any
) -> Partition | Infeasible | Dominated:
    """Make and solve a :class:`PartitionProblem`; ``limits`` are those of its ``solve``."""
    return PartitionProblem(costs, menu, schedule).solve(**limits)
