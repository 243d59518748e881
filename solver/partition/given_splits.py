"""The partition where a framework leaves only a few splits: each is tried."""

from __future__ import annotations

import math

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.lookup import RunLookup
from solver.partition.menu import Menu
from solver.partition.outcome import NOT_ADMITTED, Dominated, Infeasible, Partition
from solver.partition.regime import Split
from solver.schedules import Schedule, schedule_graph, simulate


class GivenSplits:
    """One layout's partition among given splits, bounded when made and solved when asked.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among.
        schedule: A schedule with one stage per device.
        splits: What each stage may hold, together.
    """

    def __init__(
        self, costs: PipelineCosts, menu: Menu, schedule: Schedule, splits: tuple[Split, ...]
    ) -> None:
        self._costs, self._schedule, self._splits = costs, schedule, splits
        self._runs = RunLookup(costs, menu, schedule)
        self._seconds = np.full(1, math.inf)
        if splits:
            times = self._runs.stage_times(list(splits))
            self._seconds = simulate(schedule_graph(schedule), times).makespan
        self.bound = float(self._seconds.min()) + costs.fixed_seconds

    @property
    def schedule(self) -> Schedule:
        """The schedule whose stages are filled."""
        return self._schedule

    def solve(
        self,
        *,
        relative_gap: float = 0.0,  # noqa: ARG002 - the answer is always exact
        time_limit_seconds: float = math.inf,  # noqa: ARG002 - and known already
        cutoff: float = math.inf,
    ) -> Partition | Infeasible | Dominated:
        """The fastest split; arguments and answers as ``PartitionProblem.solve``."""
        if not math.isfinite(self.bound):
            return self._shortfall()
        if self.bound >= cutoff:
            return Dominated(self.bound)
        cuts = self._splits[int(self._seconds.argmin())]
        mixes = [self._runs.mix(stage, cut) for stage, cut in enumerate(cuts)]
        return Partition(
            cuts=cuts,
            mixes=tuple(mix for mix in mixes if mix is not None),
            makespan=self.bound,
            lower_bound=self.bound,
            rows=0,
            rounds=0,
            engine="bounds",
        )

    def _shortfall(self) -> Infeasible:
        """Of the splits, the one whose fullest stage misses least."""
        capacity, found = self._costs.capacity_bytes, []
        for cuts in self._splits:
            needed = self._runs.needed_bytes(cuts)
            worst = int(needed.argmax())
            most = float(needed[worst])
            found.append(Infeasible(worst, most - capacity, most))
        return min(found, key=lambda miss: miss.missing_bytes, default=NOT_ADMITTED)
