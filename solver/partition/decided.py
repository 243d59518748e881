"""The partition of a layout that a method decides by itself: there is one plan, or none."""

from __future__ import annotations

import math

from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Dominated, Infeasible, Partition
from solver.partition.regime import Method
from solver.schedules import Schedule


class Decided:
    """One layout as a method decides it.

    Args:
        costs: What each block costs.
        schedule: A schedule that the method knows.
        method: Who decides.
    """

    bound = 0.0

    def __init__(self, costs: PipelineCosts, schedule: Schedule, method: Method) -> None:
        self._costs, self._schedule, self._method = costs, schedule, method

    @property
    def schedule(self) -> Schedule:
        """The schedule whose stages are filled."""
        return self._schedule

    def solve(
        self,
        *,
        relative_gap: float = 0.0,  # noqa: ARG002 - the one plan is the best of all
        time_limit_seconds: float = math.inf,  # noqa: ARG002 - methods are quick
        cutoff: float = math.inf,
    ) -> Partition | Infeasible | Dominated:
        """The method's plan; arguments and answers as ``PartitionProblem.solve``."""
        made = self._method(self._costs, self._schedule)
        if isinstance(made, Partition) and made.makespan >= cutoff:
            return Dominated(made.makespan)
        return made
