"""Better splits over stages that share devices, found with the paths known so far as a model.

A plan takes at least as long as the longest of the known paths, and those are sums over its stages:
thousands of plans are looked at by a product of two matrices. Neighbours of the best plan pass one
block from any stage to any other, or have a device recompute on other chunks; those that come out
shorter are simulated, and the critical paths of those that are not join the model. Where no
neighbour is better, those of the most promising neighbours are looked at in the same way.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Cut
from solver.partition.device_options import DeviceOptions
from solver.partition.menu import Floats, Index, Mix
from solver.partition.runs import RunTotals, Signatures
from solver.schedules import (
    Path,
    Schedule,
    StageTimes,
    Work,
    critical_path,
    schedule_graph,
    simulate,
)

Plan = tuple[tuple[Cut, ...], tuple[Mix, ...]]
"""The run of every stage, and what it keeps of it."""


@dataclass(frozen=True)
class Effort:
    """Tasks that are simulated in all, plans times tasks of one, and simulations in any case."""

    tasks: int
    turns: int


QUICK, THOROUGH = Effort(500_000, 3), Effort(3_000_000, 3)

TOGETHER, MOST_TOGETHER = 16, 1_000_000
"""Plans that are simulated at once, and how many tasks they may have."""

FRESH = 3
"""Critical paths that one simulation adds to the model."""

MOST_MOVES = 1_200
"""Blocks passed on that are looked at around one plan, the nearest first."""

PROMISING = 16
"""Neighbours whose own neighbours are looked at."""

EPSILON = 1e-9
"""Relative improvement that counts."""


@dataclass(frozen=True, eq=False)
class _Splits:
    """Plans side by side: ``edges`` (plans, depth + 1), ``recompute`` seconds (plans, stages)."""

    edges: Index
    recompute: Floats

    def some(self, which: Index) -> _Splits:
        return _Splits(self.edges[which], self.recompute[which])


class SplitDescent:
    """Steps from a plan to better ones.

    Args:
        costs: What each block costs.
        schedule: A schedule whose stages share devices.
        runs: What stages may hold.
        totals: What that adds up to.
        options: Ways of every device to hold its chunks.
        rows: Paths known so far; those found are appended.
        effort: When it is enough.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        schedule: Schedule,
        runs: Signatures,
        totals: RunTotals,
        options: DeviceOptions,
        rows: list[Path],
        effort: Effort = THOROUGH,
    ) -> None:
        self._costs, self._schedule = costs, schedule
        self._runs, self._totals, self._options = runs, totals, options
        self._rows, self._effort = rows, effort
        self._known = set(rows)
        self._copies = schedule.stages // schedule.depth
        self._tasks = len(schedule.work) * schedule.stages * schedule.passes
        self._together = max(min(TOGETHER, MOST_TOGETHER // self._tasks), 2)
        self._simulated = 0
        self._turns = 0

    def improve(self, plan: Plan, makespan: float, deadline: float) -> tuple[float, Plan]:
        """The best plan that steps lead to, and its makespan; the given one if none is better."""
        edges = np.array([[0, *(stop for _, stop in plan[0][: self._schedule.depth])]])
        recompute = np.array([[mix.seconds for mix in plan[1]]])
        best, time_of_best, own = _Splits(edges, recompute), makespan, True
        while self._left(deadline):
            step = self._step(best, time_of_best, deadline)
            if step is None:
                break
            (best, time_of_best), own = step, False
        return time_of_best, plan if own else self._plan(best)

    def _left(self, deadline: float) -> bool:
        enough = self._simulated * self._tasks > self._effort.tasks
        enough &= self._turns >= self._effort.turns
        return not enough and time.monotonic() < deadline

    def _step(
        self, best: _Splits, makespan: float, deadline: float
    ) -> tuple[_Splits, float] | None:
        """A better plan near the best one; None if there is none, or no time to find it."""
        near = self._neighbours(best)
        while self._left(deadline):
            lengths = self._lengths(near)
            found = self._best_of(near, lengths, makespan)
            if isinstance(found, tuple):
                return found
            if not found:
                break
        wider = self._wider(near, self._lengths(near), makespan)
        while wider is not None and self._left(deadline):
            found = self._best_of(wider, self._lengths(wider), makespan)
            if isinstance(found, tuple):
                return found
            if not found:
                break
        return None

    def _best_of(
        self, plans: _Splits, lengths: Floats, makespan: float
    ) -> tuple[_Splits, float] | bool:
        """Simulate the most promising: the best if it is better, else whether rows were added."""
        order = np.argsort(lengths, kind="stable")[: self._together]
        order = order[lengths[order] < makespan * (1 - EPSILON)]
        if not len(order):
            return False
        some = plans.some(order)
        simulation = simulate(schedule_graph(self._schedule), self._times(some))
        self._simulated += len(order)
        self._turns += 1
        at = int(simulation.makespan.argmin())
        better = simulation.makespan[at] < makespan * (1 - EPSILON)
        fresh = 0
        for one in dict.fromkeys((at, *range(min(FRESH, len(order))))):
            path = critical_path(simulation, one)
            if path not in self._known:
                self._known.add(path)
                self._rows.append(path)
                fresh += 1
        if better:
            return some.some(np.array([at])), float(simulation.makespan[at])
        return fresh > 0

    # -- neighbours --------------------------------------------------------------------------

    def _neighbours(self, plan: _Splits) -> _Splits:
        """One block passed on from a stage to another, or other ways of one device."""
        passed = self._passed_on(plan.edges[0])
        edges = np.concatenate([plan.edges, passed]) if len(passed) else plan.edges
        ways = self._weights()
        made = [
            self._with_recompute(edges if way == 0 else plan.edges, weights)
            for way, weights in enumerate(ways)
        ]
        made.append(self._other_ways(plan))
        return self._joined(made)

    def _passed_on(self, edges: Index) -> Index:
        """Edges with one block passed on from a stage to another, shape (moves, depth + 1)."""
        depth = self._schedule.depth
        long = np.flatnonzero(np.diff(edges) > 1)
        source, target = (grid.ravel() for grid in np.meshgrid(long, np.arange(depth)))
        apart = np.abs(source - target)
        nearest = np.argsort(apart, kind="stable")
        nearest = nearest[apart[nearest] > 0][:MOST_MOVES]
        source, target = source[nearest, None], target[nearest, None]
        at = np.arange(depth + 1)
        between = (at > np.minimum(source, target)) & (at <= np.maximum(source, target))
        return np.asarray(edges + between * np.where(target > source, -1, 1))

    def _other_ways(self, plan: _Splits) -> _Splits:
        """The same split with one device's recompute spread otherwise over its chunks."""
        signatures = self._signatures(plan.edges)[0]
        found = []
        for device in range(self._schedule.devices):
            stages = self._schedule.stages_of(device)
            options = self._options.of(device, signatures[stages])
            if options is None:
                continue
            for way in options.seconds:
                if (way != plan.recompute[0, stages]).any():
                    other = plan.recompute[0].copy()
                    other[stages] = way
                    found.append(other)
        recompute = np.array(found).reshape(-1, self._schedule.stages)
        return _Splits(np.repeat(plan.edges, len(recompute), axis=0), recompute)

    def _wider(self, near: _Splits, lengths: Floats, makespan: float) -> _Splits | None:
        """Neighbours of the most promising neighbours, those only that may be better."""
        order = np.argsort(lengths, kind="stable")[:PROMISING]
        weights = self._weights()[0]
        made = []
        for at in order.tolist():
            edges = self._passed_on(near.edges[at])
            if len(edges):
                plans = self._with_recompute(edges, weights)
                short = np.flatnonzero(self._lengths(plans) < makespan * (1 - EPSILON))
                made.append(plans.some(short))
        return self._joined(made) if made else None

    def _joined(self, made: list[_Splits]) -> _Splits:
        together = _Splits(
            np.concatenate([plans.edges for plans in made]),
            np.concatenate([plans.recompute for plans in made]),
        )
        keys = np.concatenate([together.edges, together.recompute], axis=1)
        _, first = np.unique(keys, axis=0, return_index=True)
        return together.some(np.sort(first))

    def _weights(self) -> list[Floats]:
        """How much a second of recompute counts on every stage: of late paths, and of each one."""
        late = np.array([path.backward for path in self._rows[-8:]], dtype=np.float64)
        floor = 1e-3 * self._schedule.passes
        return [late.mean(axis=0) + floor, *(late + floor)]

    def _with_recompute(self, edges: Index, weights: Floats) -> _Splits:
        """Splits with the ways of their devices chosen; only those that fit."""
        recompute = self._options.best(self._signatures(edges), weights)
        fits = np.isfinite(recompute).all(axis=1)
        return _Splits(edges[fits], recompute[fits])

    # -- times -------------------------------------------------------------------------------

    def _signatures(self, edges: Index) -> Index:
        of_run = self._runs.of_run[edges[:, :-1], edges[:, 1:]]
        return np.tile(of_run, (1, self._copies))

    def _times(self, plans: _Splits) -> StageTimes:
        chosen, totals = self._signatures(plans.edges), self._totals
        return StageTimes(
            forward=totals.forward[chosen],
            backward=totals.backward[chosen] + plans.recompute,
            send=self._costs.send_seconds,
            before_first=totals.before_first[chosen],
            after_last=totals.after_last[chosen],
            step=totals.step[chosen],
            weight=totals.weight[chosen],
        )

    def _lengths(self, plans: _Splits) -> Floats:
        """The longest of the known paths of every plan."""
        if not len(plans.edges):
            return np.zeros(0)
        times = self._times(plans)
        total = np.zeros((len(plans.edges), len(self._rows)))
        for work in Work:
            counts = [path.count(work) or (0,) * self._schedule.stages for path in self._rows]
            if work in self._schedule.work:
                total += times.of_work(work) @ np.array(counts, dtype=np.float64).T
        total += np.array([path.sends for path in self._rows]) * times.send
        for at, path in enumerate(self._rows):
            if path.first is not None:
                total[:, at] += times.before_first[:, path.first]
            if path.last is not None:
                total[:, at] += times.after_last[:, path.last]
            if path.step:
                total[:, at] += times.step[:, list(path.step)].sum(axis=1)
        return np.asarray(total.max(axis=1))

    def _plan(self, one: _Splits) -> Plan:
        cuts = tuple(itertools.pairwise(one.edges[0].tolist())) * self._copies
        return cuts, self._options.mixes(self._signatures(one.edges)[0], one.recompute[0])
