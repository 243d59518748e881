"""Stages that share devices where a framework leaves only a few splits: each is a problem."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from solver.partition.outcome import NOT_ADMITTED, Dominated, Infeasible, Partition
from solver.partition.shared import SharedProblem
from solver.schedules import Schedule


class GivenSharedSplits:
    """One layout's partition among given splits, those of least bound solved first.

    Args:
        schedule: The schedule whose stages are filled.
        problems: One for each split, all on that schedule.
    """

    def __init__(self, schedule: Schedule, problems: Sequence[SharedProblem]) -> None:
        self.schedule = schedule
        self._problems = sorted(problems, key=lambda problem: problem.bound)
        self.bound = min((problem.bound for problem in problems), default=math.inf)

    def unproved(self) -> Partition | None:
        """The fastest of the plans that moves lead to in each split; None if none fits."""
        made = [problem.unproved() for problem in self._problems]
        fitting = [plan for plan in made if plan is not None]
        return min(fitting, key=lambda plan: plan.makespan, default=None)

    def solve(
        self,
        *,
        relative_gap: float = 1e-4,
        time_limit_seconds: float = 30.0,
        cutoff: float = math.inf,
    ) -> Partition | Infeasible | Dominated:
        """The fastest split's plan; arguments and answers as ``PartitionProblem.solve``."""
        deadline = time.monotonic() + time_limit_seconds
        best: Partition | None = None
        missing = NOT_ADMITTED
        bounds: list[float] = []
        for problem in self._problems:
            limit = cutoff if best is None else min(cutoff, best.makespan)
            found = problem.solve(
                relative_gap=relative_gap,
                time_limit_seconds=max(deadline - time.monotonic(), 0.1),
                cutoff=limit,
            )
            if isinstance(found, Infeasible):
                missing = min(missing, found, key=lambda miss: miss.missing_bytes)
                continue
            bounds.append(found.lower_bound)
            if isinstance(found, Partition) and (best is None or found.makespan < best.makespan):
                best = found
        if not bounds:
            return missing
        if best is None:
            return Dominated(min(bounds))
        return replace(best, lower_bound=min(*bounds, best.makespan))
