"""From a bound and the best plan to a proof, by walks (``walks.py``) and plans that they promise.

Walks are asked for what is left just below the best plan. Mostly that is nothing: the proof. Else
plans are looked for among the runs that are left; if none is better, walks of these runs alone,
which know more of them, are asked again. What then still is left is bounded by dividing the
distance between the bound and the best plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import numpy as np

from solver.partition.best_plan import BestPlan
from solver.partition.candidates import Candidates
from solver.partition.walk_beam import promising_plans
from solver.partition.walks import Walks
from solver.schedules import Schedule

LIMITS = 8
"""Limits that are tried at once between a bound and a plan."""

FINER = 8
"""Parts of the asked gap to which the distance is divided."""

FEWER = 0.7
"""Part of the runs, or less, with which walks are asked again."""


@dataclass(frozen=True)
class WalkSearch:
    """Plans of 1F1B between a bound and the best one.

    Args:
        schedule: 1F1B with one stage per device.
        send_seconds: Seconds of one send.
        best: The best plan, to which others are offered.
        limit: The makespan that a plan must beat to matter, as it is by then.
        deadline: When to stop, as ``time.monotonic``.
        asked_first: Whether a limit that others reached is asked for before plans are looked for.
    """

    schedule: Schedule
    send_seconds: float
    best: BestPlan
    limit: Callable[[], float]
    deadline: float
    asked_first: bool

    def narrow(
        self, candidates: Candidates, low: float, relative_gap: float
    ) -> tuple[float, Candidates]:
        """A bound of every plan of these runs, at least ``low``, and the runs of better plans.

        No run is left where the bound is within the gap of the limit.
        """
        while True:
            known = self.limit()
            candidates = self.left(candidates, relative_gap)
            if not candidates.alive.any():
                return self._near(relative_gap), candidates
            low = self._divide(candidates, low, relative_gap)
            if low >= self._near(relative_gap):
                return low, _none_of(candidates)
            if self.limit() >= known or time.monotonic() >= self.deadline:
                return low, candidates

    def left(self, candidates: Candidates, relative_gap: float) -> Candidates:
        """The runs of better plans; none where no plan is better by more than the gap."""
        while True:
            walks = Walks(candidates, self.schedule, self.send_seconds)
            if not self.asked_first:
                self._improves(walks)
            before = copy(walks)
            while True:
                near = self._near(relative_gap)
                if not walks.below(np.array([near]))[1]:
                    return _none_of(candidates)
                if not self._improves(walks):
                    break
                if near >= self.limit():
                    before = copy(walks)
            before.below(np.array([self.limit()]))
            few = before.left < FEWER * int(candidates.alive.sum())
            candidates = candidates.keeping(before.alive())
            if not few or time.monotonic() >= self.deadline:
                return candidates

    def _divide(self, candidates: Candidates, low: float, relative_gap: float) -> float:
        """The largest limit, nearly, below which walks leave nothing."""
        walks = Walks(candidates, self.schedule, self.send_seconds)
        high = self.limit()
        while low < min(high * (1 - relative_gap / FINER), self._near(relative_gap)):
            limits = np.linspace(low, high, LIMITS + 2)
            place, some = walks.below(limits[1:-1])
            low = float(limits[place])
            if some:
                high = float(limits[place + 1])
                self._improves(walks)
            elif place < LIMITS:
                low = float(limits[place + 1])
            if time.monotonic() >= self.deadline:
                break
        return low

    def _improves(self, walks: Walks) -> bool:
        return self.best.offer(promising_plans(walks, self.limit()))

    def _near(self, relative_gap: float) -> float:
        """The limit below which no plan is looked for: what others reached, or nearly the best."""
        ours = self.best.makespan * (1 - relative_gap)
        return min(self.limit(), ours)


def _none_of(candidates: Candidates) -> Candidates:
    return candidates.keeping(np.zeros_like(candidates.alive))
