"""A menu asked for runs: the times and bytes of candidate runs and of complete plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Bools, Candidates, Cut
from solver.partition.menu import Index, Menu, Mix
from solver.partition.runs import run_totals, signatures
from solver.schedules import Schedule, StageTimes
from solver.schedules.simulate import Floats


class RunLookup:
    """The runs of one pipeline under one menu, on a schedule with one stage per device.

    ``admits`` says of counts of blocks, shape (runs, kinds), which a stage may hold.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: Menu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
    ) -> None:
        self._menu, self._stages, self._send = menu, schedule.stages, costs.send_seconds
        self._signatures = signatures(costs.sequence, len(costs.blocks))
        self._totals = run_totals(
            costs, self._signatures.counts, splits_backward=schedule.splits_backward
        )
        self._in_flight = np.array([schedule.in_flight(s) for s in range(schedule.stages)])
        counts = self._signatures.counts
        self._admitted = None if admits is None else admits(counts)

    def candidates(self, longest: float = np.inf) -> Candidates:
        """Every run that takes less than ``longest``, before any recompute."""
        found = Candidates.all(self._signatures, self._totals, self._stages, longest)
        if self._admitted is None:
            return found
        return replace(found, alive=found.alive & self._admitted[found.runs])

    def cautious_times(self, plan: tuple[Cut, ...], capacity_bytes: float) -> StageTimes | None:
        """Times that no mix of a plan exceeds; None if one of its stages cannot fit."""
        chosen = np.array([self._signatures.of_run[cut] for cut in plan])
        if self._admitted is not None and not self._admitted[chosen].all():
            return None
        counts, states = self._signatures.counts[chosen], self._totals.states[chosen]
        for stage in range(self._stages):
            one = slice(stage, stage + 1)
            needed = self._menu.least_bytes(counts[one], states[one], self._in_flight[one])
            if needed[0, 0] > capacity_bytes * (1 + 1e-12):
                return None
        return self._times(chosen[None], self._menu.slowest(counts)[None])

    def least_bytes(self, candidates: Candidates) -> Floats:
        """Bytes that every run needs at least, shape (V, W, W)."""
        distinct, which = np.unique(self._in_flight, return_inverse=True)
        counts, states = self._signatures.counts, self._totals.states
        needed = self._menu.least_bytes(counts, states, distinct)
        return np.asarray(needed[which[:, None, None], candidates.runs])

    def needed_bytes(self, plan: tuple[Cut, ...]) -> Floats:
        """Bytes that each stage of a plan needs at least, shape (stages,)."""
        chosen = np.array([self._signatures.of_run[cut] for cut in plan])
        counts, states = self._signatures.counts[chosen], self._totals.states[chosen]
        needed = self._menu.least_bytes(counts, states, self._in_flight)
        return np.asarray(np.diagonal(needed))

    def plain_backward(self, signature: int) -> float:
        """Backward seconds of a signature without recompute."""
        return float(self._totals.backward[signature])

    def optimistic(self, candidates: Candidates) -> Floats:
        """Backward times with a bound of the recompute that each alive run's memory asks for."""
        stage, start, stop = np.nonzero(candidates.alive)
        signature = candidates.runs[stage, start, stop]
        flights = self._in_flight[stage]
        most = int(flights.max(initial=0))
        key, which = np.unique(signature * (most + 1) + flights, return_inverse=True)
        of_run, flight = np.divmod(key, most + 1)
        extra = self._menu.bounds(
            self._signatures.counts[of_run], self._totals.states[of_run], flight
        )
        backward = np.full(candidates.alive.shape, np.inf)
        backward[stage, start, stop] = self._totals.backward[signature] + extra[which]
        return backward

    def slowest(self, candidates: Candidates) -> Floats:
        """Recompute seconds that no mix of a run exceeds, shape (V, W, W)."""
        return np.asarray(self._menu.slowest(self._signatures.counts)[candidates.runs])

    def mix(self, stage: int, cut: Cut) -> Mix | None:
        """The cheapest mix of a run on a stage, or None if it cannot fit."""
        signature = int(self._signatures.of_run[cut])
        counts = tuple(self._signatures.counts[signature].tolist())
        states = float(self._totals.states[signature])
        return self._menu.cheapest(counts, states, int(self._in_flight[stage]))

    def stage_times(self, plans: list[tuple[Cut, ...]]) -> StageTimes:
        """Exact times of complete plans, shape (plans, stages); infinite where one cannot fit."""
        chosen = np.array([[self._signatures.of_run[cut] for cut in plan] for plan in plans])
        recompute = np.array(
            [
                [
                    mix.seconds if (mix := self.mix(stage, cut)) is not None else np.inf
                    for stage, cut in enumerate(plan)
                ]
                for plan in plans
            ]
        )
        return self._times(chosen, recompute)

    def _times(self, chosen: Index, recompute: Floats) -> StageTimes:
        totals = self._totals
        return StageTimes(
            forward=totals.forward[chosen],
            backward=totals.backward[chosen] + recompute,
            send=self._send,
            before_first=totals.before_first[chosen],
            after_last=totals.after_last[chosen],
            step=totals.step[chosen],
            weight=totals.weight[chosen],
        )
