"""A menu asked for runs: the times and bytes of candidate runs and of complete plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Bools, Candidates, Cut
from solver.partition.deferring_menu import menu_by_stage
from solver.partition.menu import Index, Menu, Mix
from solver.partition.runs import chained, run_totals, signatures
from solver.partition.timings import TimedSignatures, timed
from solver.schedules import Schedule, StageTimes, Work
from solver.schedules.simulate import Floats

TINY = 1e-290
"""Seconds beside which those of any pass are all there is."""


class RunLookup:
    """The runs of one pipeline under one menu, on a schedule with one stage per device.

    Where devices differ, what runs add up to stands once per kind of device, one kind after the
    other; a run on a stage is a place in that list. ``admits`` says of counts of blocks, shape
    (runs, kinds), which a stage may hold. ``blocks`` is how many the pipeline has.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: Menu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
    ) -> None:
        kinds = costs.different
        of_stage = [kinds.index(costs.at(stage)) for stage in range(schedule.stages)]
        asked = [
            menu_by_stage(one, menu.at(of_stage.index(kind)), schedule)
            for kind, one in enumerate(kinds)
        ]
        self.blocks = len(costs.sequence)
        self.times_recompute = Work.RECOMPUTE in schedule.work
        self._menus = [one for one, _ in asked]
        if self.times_recompute:
            self._menus = [timing for one in self._menus for timing in (one, one.ahead())]
            kinds = tuple(one for one in kinds for _ in range(2))
            of_stage = [2 * kind for kind in of_stage]
        self._in_flight = asked[0][1]
        self._stages, self._send = schedule.stages, costs.send_seconds
        self._signatures = menu.signatures() or signatures(costs.sequence, len(costs.blocks))
        plain = self._signatures
        if self.times_recompute:
            self._signatures = TimedSignatures.of(plain)
        counts = self._signatures.counts[:, : len(costs.blocks)]
        self._size = len(counts)
        self._counts = np.tile(self._signatures.counts, (len(kinds), 1))
        self._totals = chained(
            [run_totals(one, counts, splits_backward=schedule.splits_backward) for one in kinds]
        )
        self._step = np.concatenate([_step_bytes(one, counts) for one in kinds])
        passes = (self._totals.forward + self._totals.backward)[: self._size]
        self._loads = plain.loads(passes)
        self._kind = np.array(of_stage)
        self._mixes: dict[tuple[int, int], Mix | None] = {}
        self._capacity = np.array([kinds[kind].capacity_bytes for kind in of_stage])
        self._admitted = None if admits is None else admits(np.tile(counts, (len(kinds), 1)))

    @property
    def capacity_bytes(self) -> Floats:
        """Usable bytes of every stage's device, shape (V,)."""
        return self._capacity

    def candidates(self, longest: float = np.inf) -> Candidates:
        """Every run that takes less than ``longest``, before any recompute."""
        places = self._kind * self._size if len(self._menus) > 1 else None
        found = Candidates.all(self._signatures, self._totals, self._stages, longest, places)
        if self._admitted is None:
            return found
        return replace(found, alive=found.alive & self._admitted[found.runs])

    def is_ahead(self, places: Index) -> Bools:
        """Whether runs, by their places, recompute ahead."""
        return np.asarray(places // self._size % 2 == 1) if self.times_recompute else places < 0

    def split(self, shares: Floats) -> tuple[Cut, ...]:
        """A plan whose stages take such shares of all passes, nearly; every stage on demand."""
        ends = np.cumsum(shares)[:-1] * (self._loads[-1] / shares.sum())
        after = np.minimum(np.searchsorted(self._loads, ends), self.blocks)
        edges = after - (ends - self._loads[after - 1] < self._loads[after] - ends)
        stage = np.arange(1, self._stages)  # every stage holds a block
        edges = np.maximum(np.maximum.accumulate(edges - stage), 0) + stage
        edges = np.minimum(edges, self.blocks - self._stages + stage)
        plan = tuple(itertools.pairwise([0, *edges.tolist(), self.blocks]))
        return timed(plan) if self.times_recompute else plan

    def cautious_times(self, plan: tuple[Cut, ...]) -> tuple[StageTimes, Floats] | None:
        """Times that a plan of best mixes does not exceed; None if one of its stages cannot fit.

        With them what part of a pass, shape (stages,), is no recompute.
        """
        chosen = np.array([self._place(stage, cut) for stage, cut in enumerate(plan)])
        if self._admitted is not None and not self._admitted[chosen].all():
            return None
        capacity = self._capacity * (1 + 1e-12)
        if (self._step[chosen] > capacity).any():
            return None
        most = np.empty(self._stages)
        for kind, menu in enumerate(self._menus):
            here = np.flatnonzero(self._kind == kind)
            if len(here):
                most[here] = self._cautious(
                    menu, chosen[here], self._in_flight[here], capacity[here]
                )
        if not np.isfinite(most).all():
            return None
        times = self._times(chosen[None], most[None])
        passes = times.forward[0] + times.backward[0] + times.of_work(Work.WEIGHT)[0]
        return times, (passes - most + TINY) / (passes + TINY)

    def _cautious(self, menu: Menu, places: Index, in_flight: Index, capacity: Floats) -> Floats:
        """Recompute seconds that no best mix of runs exceeds; infinite where one cannot fit."""
        counts, states = self._counts[places], self._totals.states[places]
        most = menu.quick(counts, states, in_flight)
        unknown = np.flatnonzero(~np.isfinite(most))
        if len(unknown):
            counts, states = counts[unknown], states[unknown]
            flights, which = np.unique(in_flight[unknown], return_inverse=True)
            least = menu.least_bytes(counts, states, flights)[which, np.arange(len(unknown))]
            most[unknown] = np.where(least <= capacity[unknown], menu.slowest(counts), np.inf)
        return most

    def least_bytes(self, candidates: Candidates) -> Floats:
        """Bytes that each run that is alive needs at least, shape (V, W, W); else infinite."""
        flights, of_stage = np.unique(self._in_flight, return_inverse=True)
        used = np.zeros(len(self._counts), dtype=bool)
        used[candidates.runs[candidates.alive]] = True
        least = np.full((len(flights), len(used)), np.inf)
        for kind, menu in enumerate(self._menus):
            one = slice(kind * self._size, (kind + 1) * self._size)
            rows = one.start + np.flatnonzero(used[one])
            if len(rows):
                found = menu.least_bytes(self._counts[rows], self._totals.states[rows], flights)
                least[:, rows] = np.maximum(found, self._step[rows])
        needed = least[of_stage[:, None, None], candidates.runs]
        return np.where(candidates.alive, needed, np.inf)

    def needed_bytes(self, plan: tuple[Cut, ...]) -> Floats:
        """Bytes that each stage of a plan needs at least, shape (stages,)."""
        needed = np.empty(self._stages)
        for stage, cut in enumerate(plan):
            place, menu = self._place(stage, cut), self._menus[int(self._kind[stage])]
            one = slice(place, place + 1)
            flight = self._in_flight[stage : stage + 1]
            found = menu.least_bytes(self._counts[one], self._totals.states[one], flight)
            needed[stage] = max(found[0, 0], self._step[place])
        return needed

    def plain_backward(self, place: int) -> float:
        """Backward seconds of a run, by its place, without recompute."""
        return float(self._totals.backward[place])

    def optimistic(self, candidates: Candidates) -> Candidates:
        """The runs with a bound of the recompute that each alive one's memory asks for."""
        stage, start, stop = np.nonzero(candidates.alive)
        place = candidates.runs[stage, start, stop]
        flights = self._in_flight[stage]
        most = int(flights.max(initial=0))
        key, which = np.unique(place * (most + 1) + flights, return_inverse=True)
        of_run, flight = np.divmod(key, most + 1)
        extra = np.empty(len(key))
        for kind, menu in enumerate(self._menus):
            here = of_run // self._size == kind
            rows = of_run[here]
            extra[here] = menu.bounds(self._counts[rows], self._totals.states[rows], flight[here])
        return self.recomputing(candidates, (stage, start, stop), extra[which])

    def known(self, candidates: Candidates) -> Bools:
        """Alive runs whose recompute times ``optimistic`` has exactly, shape (V, W, W)."""
        known = np.zeros(candidates.alive.shape, dtype=bool)
        places, which = np.unique(candidates.runs[candidates.alive], return_inverse=True)
        found = np.zeros(len(places), dtype=bool)
        for kind, menu in enumerate(self._menus):
            here = places // self._size == kind
            found[here] = menu.knows(self._counts[places[here]])
        known[candidates.alive] = found[which]
        return known

    def recomputing(
        self, candidates: Candidates, at: tuple[Index, Index, Index], seconds: Floats
    ) -> Candidates:
        """Runs that recompute so long; those not at these places are no longer alive."""
        place = candidates.runs[at]
        ahead = self.is_ahead(place)
        backward = np.full(candidates.alive.shape, np.inf)
        backward[at] = self._totals.backward[place] + np.where(ahead, 0.0, seconds)
        if not self.times_recompute:
            return candidates.with_backward(backward)
        recompute = np.zeros(candidates.alive.shape)
        recompute[at] = np.where(ahead, seconds, 0.0)
        return candidates.with_backward(backward, recompute)

    def slowest(self, candidates: Candidates) -> Floats:
        """Recompute seconds that no mix of a run exceeds, shape (V, W, W)."""
        slowest = [menu.slowest(self._signatures.counts) for menu in self._menus]
        return np.asarray(np.concatenate(slowest)[candidates.runs])

    def mix(self, stage: int, cut: Cut) -> Mix | None:
        """The cheapest mix of a run on a stage, or None if it cannot fit."""
        return self._mix(self._place(stage, cut), stage)

    def _mix(self, place: int, stage: int) -> Mix | None:
        key = (place, int(self._in_flight[stage]))
        if key not in self._mixes:
            self._find_mixes([key])
        return self._mixes[key]

    def _find_mixes(self, keys: list[tuple[int, int]]) -> None:
        """The cheapest mixes of runs, by places and micro-batches in flight."""
        for number, menu in enumerate(self._menus):
            mine = [key for key in keys if key[0] // self._size == number]
            if mine:
                counts, states = self._counts, self._totals.states
                asked = [
                    (tuple(counts[place].tolist()), float(states[place]), flight)
                    for place, flight in mine
                ]
                self._mixes.update(zip(mine, menu.cheapest_of(asked), strict=True))

    def _seconds(self, place: int, stage: int, *, least: bool) -> tuple[float, float]:
        """Recompute seconds of a run, and those by which its windows are lengthened.

        The latter are this mix's own; another one may lengthen none.
        """
        mix = self._mix(place, stage)
        if mix is None:
            return np.inf, 0.0
        return (mix.bound, 0.0) if least else (mix.seconds, mix.charged)

    def stage_times(self, plans: list[tuple[Cut, ...]], *, least: bool = False) -> StageTimes:
        """Times of complete plans, shape (plans, stages); infinite where one cannot fit.

        ``least``: what no mix is below, in place of what the best one that was found takes.
        """
        cuts = np.array(plans)
        chosen = self._signatures.of_run[cuts[..., 0], cuts[..., 1]] + self._kind * self._size
        stage = np.broadcast_to(np.arange(self._stages), chosen.shape)
        distinct, which = np.unique(chosen * self._stages + stage, return_inverse=True)
        asked = [divmod(key, self._stages) for key in distinct.tolist()]
        keys = dict.fromkeys((place, int(self._in_flight[at])) for place, at in asked)
        self._find_mixes([key for key in keys if key not in self._mixes])
        seconds = np.array([self._seconds(*one, least=least) for one in asked])
        recompute, charged = np.moveaxis(seconds[which.reshape(chosen.shape)], 2, 0)
        return self._times(chosen, recompute, charged)

    def _place(self, stage: int, cut: Cut) -> int:
        return int(self._signatures.of_run[cut]) + int(self._kind[stage]) * self._size

    def _times(self, chosen: Index, recompute: Floats, charged: Floats | float = 0.0) -> StageTimes:
        totals, ahead = self._totals, self.is_ahead(chosen)
        return StageTimes(
            forward=totals.forward[chosen],
            backward=totals.backward[chosen] + np.where(ahead, charged, recompute),
            send=self._send,
            before_first=totals.before_first[chosen],
            after_last=totals.after_last[chosen],
            step=totals.step[chosen],
            weight=totals.weight[chosen],
            recompute=np.where(ahead, recompute - charged, 0.0) if self.times_recompute else None,
        )


def _step_bytes(costs: PipelineCosts, counts: Index) -> Floats:
    """Bytes of every run in the optimizer's step, shape (runs,)."""
    states = np.array([block.states.total + block.update_bytes for block in costs.blocks])
    working = np.array([block.working_bytes for block in costs.blocks])
    most = np.where(counts > 0, working, 0.0).max(axis=1)
    needed: Floats = counts @ states + most + costs.reserved_bytes
    return needed
