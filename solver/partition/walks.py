"""Walks over stages: paths of 1F1B that go back and forth between neighbours, as bounds of plans.

With p stages and n micro-batches, stage s runs F(s, j) and then B(s, j - p + s + 1) in its slot
j. From there a path may stay for another slot, go down to the next stage by its forward, which
takes no slot of its own, or up to the stage before by its backward, which takes one. With
t = F + B, a trip through the stages c .. i and back takes their number l of slots and lasts ::

    t(c) + ... + t(i) + 2 (l - 1) send

where staying takes l t(c): with sends, neighbours that are equally slow hold each other up, and
the bottleneck of a pipeline is not a stage but an interval of stages. A path that comes down to
stage i, makes such trips in the n - p + i slots in which all stages are busy, and leaves, lasts ::

    before(i) + t(i) + 2 i send + S(i) + E(i) + trips

    S(i) = max((p - 1 - i) F(i),  t(i+1) + 2 send + S(i+1)),    E(i) the same with B

S and E being what the first and the last micro-batches cost behind stage i: waiting for them, or
going with them. Slots that are no multiple of l are spent on parts of the trip, which costs at most
two sends there and back. A path begins with the gather of the weights of stage 0, or of any
other that it comes down from, and ends with the reduction of the gradients of such a one.

``Walks`` bounds plans by dynamic programs over stages. Its states are a cut and the number of
stages in the interval that is open there; an interval is closed, and a new one begun, where it is
worth less than none at the rate at which the limit would be reached. Per state stand the least sum
before and the least sum of the interval, so that nothing is lost but what neighbouring choices of a
plan do not share. One program runs from the last stage to the first, so that the other one, from
the first to the last, knows S and E of what can follow.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from solver.partition.candidates import Bools, Candidates, Cut, Index
from solver.partition.walk_runs import NEVER, Runs
from solver.schedules import Schedule
from solver.schedules.simulate import Floats

LONGEST = 48
"""Stages of the longest interval that is followed."""


@dataclass(frozen=True, eq=False)
class _Order:
    """Runs in the order in which a program comes to them, stage by stage.

    ``near`` is each run's cut that they are grouped by, ``far`` its other one; ``first`` are the
    places, within a stage, at which the cuts ``cuts`` begin.
    """

    where: Index
    edges: list[tuple[int, int]]
    far: Index
    first: list[Index]
    cuts: list[Index]

    @classmethod
    def of(
        cls, where: Index, stage: Index, near: Index, far: Index, edges: list[tuple[int, int]]
    ) -> _Order:
        stage, near = stage[where], near[where]
        begins = np.ones(len(near), dtype=bool)
        begins[1:] = (near[1:] != near[:-1]) | (stage[1:] != stage[:-1])
        places = np.flatnonzero(begins)
        low = np.array([edge for edge, _ in edges])
        first, cuts = places - low[stage[places]], near[places]
        parts = [slice(*part) for part in np.searchsorted(places, edges).tolist()]
        return cls(
            where,
            edges,
            far[where],
            [first[part] for part in parts],
            [cuts[part] for part in parts],
        )


class Walks:
    """Plans of 1F1B that may stay below a limit.

    Args:
        candidates: The runs in question and their times.
        schedule: 1F1B with one stage per device.
        send_seconds: Seconds of one send.
    """

    def __init__(self, candidates: Candidates, schedule: Schedule, send_seconds: float) -> None:
        self._candidates = candidates
        self._p, self._n = schedule.devices, schedule.micro_batches
        self._there = 2.0 * send_seconds
        self._width = candidates.runs.shape[1]
        stage = np.arange(self._p)[:, None]
        longest = min(self._p, LONGEST)
        length = np.arange(1, longest + 1)
        slots = self._n - self._p + stage
        trips, rest = np.divmod(slots, length)
        # A trip's share of the slots, and the sends of all trips and of the way to the stage.
        some = trips > 0
        self.share = np.where(some, slots / length, 0.0)
        sends = self._there * (stage + (trips * (length - 1) + np.maximum(rest - 2, 0)) * some)
        self.sends = np.where(slots > 0, sends, -NEVER)  # too few micro-batches for stage's paths
        # The same of intervals that begin at a stage, by the stages that they go on for.
        end = np.minimum(stage + length - 1, self._p - 1)
        self._share_from = self.share[end, length - 1]
        self._share_and_one = self._share_from + 1.0
        self._sends_from = self.sends[end, length - 1]
        self._look_at(Runs.of(candidates))
        self._before, slow, ways = self._first_before()
        runs, place = self.runs, (self.runs.stage, self.runs.start)
        # What a run's micro-batches wait for behind it, and what leads to it where that begins with
        # the gather of any stage up to there and ends with the reduction of any. Sends from and to
        # the first stage, which ``sends`` counts, are taken off.
        # A path that begins or ends with another stage's may not have come by the slowest pass.
        seconds, moved = (
            np.stack([runs.forward, runs.backward]),
            np.stack([runs.gather, runs.reduction]),
        )
        if not moved.any():
            seconds = np.maximum(seconds, slow[:, *place])
        self._waits = (self._p - 1 - runs.stage) * seconds
        self.way = np.maximum(ways[:, *place], moved).sum(axis=0) - self._there * runs.stage
        self.rest = self._rest(self._first_behind())

    def below(self, limits: Floats) -> tuple[int, bool]:
        """The place of the least limit below which a plan may stay, and whether one may.

        The place is how many limits there are where none leaves anything; it may be that what is
        left behind every cut below a limit makes no plan. ``limits`` ascend. Runs of which no such
        plan is made are then no longer looked at, so that later limits are lower.
        """
        place, behind = self._backward(limits)
        return place, behind is not None and self._forward(float(limits[place]), behind)

    @property
    def left(self) -> int:
        """How many runs are still looked at."""
        return len(self.runs.stage)

    def alive(self) -> Bools:
        """The runs that are still looked at, shape (V, W, W)."""
        alive = np.zeros_like(self._candidates.alive)
        alive[self.runs.stage, self.runs.start, self.runs.stop] = True
        return alive

    def _look_at(self, runs: Runs) -> None:
        """These runs from now on."""
        self.runs = runs
        edges = runs.edges(self._p)
        here = np.arange(len(runs.stage))
        self._by_start = _Order.of(here, runs.stage, runs.start, runs.stop, edges)
        self.by_stop = _Order.of(runs.by_stop(), runs.stage, runs.stop, runs.start, edges)

    def _first_before(self) -> tuple[Floats, Floats, Floats]:
        """Whatever the limit, before every cut: least sums, least slowest passes, least ways.

        Shapes (stages + 1, cuts); slowest passes and ways for forward and backward apart. A way
        begins with the gather, or ends with the reduction, of any stage.
        """
        runs, order = self.runs, self.by_stop
        nothing, send = np.zeros(len(runs.stage)), self._there / 2
        at_least = np.stack([nothing, runs.forward, runs.backward, runs.gather, runs.reduction])
        more = np.stack([runs.led, nothing, nothing, runs.forward + send, runs.backward + send])
        at_least, more = at_least[:, order.where], more[:, order.where]
        table = np.full((self._p + 1, 5, self._width), NEVER)
        table[0, :, 0] = 0.0
        for stage, (low, high) in enumerate(order.edges):
            found = table[stage].take(order.far[low:high], axis=1)
            np.maximum(found, at_least[:, low:high], out=found)
            found += more[:, low:high]
            table[stage + 1][:, order.cuts[stage]] = np.minimum.reduceat(
                found, order.first[stage], axis=1
            )
        table = table.transpose(1, 0, 2)
        return table[0], table[1:3], table[3:]

    def _first_behind(self) -> Floats:
        """S and E behind every cut, whatever the limit, with the stage behind and the way to it.

        Shape (2, stages + 1, cuts).
        """
        runs, order = self.runs, self._by_start
        table = np.full((self._p + 1, 2, self._width), NEVER)
        table[-1, :, 0] = 0.0
        way = runs.times + self._there
        for stage in reversed(range(self._p)):
            (low, high), first, cuts = order.edges[stage], order.first[stage], order.cuts[stage]
            found = table[stage + 1].take(order.far[low:high], axis=1)
            np.maximum(found, self._waits[:, low:high], out=found)
            found += way[low:high]
            table[stage][:, cuts] = np.minimum.reduceat(found, first, axis=1)
        return table.transpose(1, 0, 2)

    def _backward(self, limits: Floats) -> tuple[int, Floats | None]:
        """The place of the least limit that leaves something; S and E there behind every cut.

        Shape (2, stages + 1, cuts). All limits are looked at in one go, until they leave nothing.
        """
        runs, order = self.runs, self._by_start
        led = np.maximum(self.way, self._before[runs.stage, runs.start]) + runs.fixed
        led, times = led[:, None], runs.times[:, None]
        way, waits = times + self._there, self._waits[:, None, :, None]
        place, limits = 0, limits[:, None, None]
        tolls = self._share_from * self._there
        behind = np.full((2, len(limits), self._p + 1, self._width), NEVER)
        behind[:, :, -1, 0] = 0.0
        # Per limit, cut and stages in the interval: S and E behind, S + E at the interval's end,
        # its sum.
        state = np.full((4, len(limits), self._width, 1), NEVER)
        state[:, :, 0, 0] = 0.0
        for stage in reversed(range(self._p)):
            low, high = order.edges[stage]
            if low == high:
                return place + len(limits), None
            open_, first, cuts = state.shape[3], order.first[stage], order.cuts[stage]
            found = state.take(order.far[low:high], axis=2)
            ends = found[:2]
            np.maximum(ends, waits[:, :, low:high], out=ends)
            np.add(found[0, ..., 0], found[1, ..., 0], out=found[2, ..., 0])
            found[3] += times[low:high]
            value = found[3] * self._share_and_one[stage, :open_]
            value += found[2]
            value += self._sends_from[stage, :open_]
            value += led[low:high]
            ends += way[low:high]
            lost, goes_on, kept = self._split(value, limits, limits - tolls[stage, :open_])
            closed = np.minimum.reduce(ends + (lost | goes_on) * NEVER, axis=3)
            state = np.full((4, len(limits), self._width, kept + 1), NEVER)
            state[:2, :, cuts, 0] = np.minimum.reduceat(closed, first, axis=2)
            if np.greater(goes_on, lost, out=goes_on).any():
                np.copyto(found, NEVER, where=~goes_on)
                state[..., cuts, 1:] = np.minimum.reduceat(found[..., :kept], first, axis=2)
            reached = np.minimum.reduce(state[0], axis=1) < NEVER
            lengths = np.logical_or.reduce(reached, axis=0).nonzero()[0]
            if not len(lengths):
                return place + len(limits), None
            state = state[..., : int(lengths[-1]) + 1]
            gone = int(np.logical_or.reduce(reached, axis=1).argmax())
            if gone:
                state, limits, behind = state[:, gone:], limits[gone:], behind[:, gone:]
                place += gone
            state[2:, ..., 0] = (state[0, ..., 0] >= NEVER) * NEVER
            behind[:, :, stage] = np.minimum.reduce(state[:2], axis=3)
        return place, behind[:, 0]

    def _split(
        self, value: Floats, limit: Floats | float, worth: Floats
    ) -> tuple[Bools, Bools, int]:
        """Which states pass the limit, which keep their interval open, and how many lengths can."""
        kept = min(value.shape[-1] + 1, self.share.shape[1]) - 1
        goes_on = value > worth
        goes_on[..., kept:] = False
        return value >= limit, goes_on, kept

    def _rest(self, behind: Floats) -> Floats:
        """What follows runs at least: S and E behind them, or as long as they wait; their update.

        Shape (runs,); ``behind`` as of ``_backward``.
        """
        runs = self.runs
        seconds = np.maximum(self._waits, behind[:, runs.stage + 1, runs.stop]).sum(axis=0)
        return np.asarray(seconds + runs.fixed)

    def _forward(self, limit: float, behind: Floats) -> bool:
        """Look only at the runs of plans that may stay below the limit; whether there are any."""
        runs, order = self.runs, self.by_stop
        ends = self._rest(behind)
        rest = ends[order.where, None]
        led = (self.way + runs.times)[order.where, None]
        more = np.stack([runs.led, runs.times])[:, order.where, None]
        worth = limit - self.share * self._there
        # Per cut and stages in the interval: the least sum before, and that of the interval.
        state = np.full((2, self._width, 1), NEVER)
        state[:, 0, 0] = 0.0
        left = np.zeros(len(runs.stage), dtype=bool)
        before = np.full((self._p + 1, self._width), NEVER)
        before[0, 0] = 0.0
        for stage, (low, high) in enumerate(order.edges):
            open_, first, cuts = state.shape[2], order.first[stage], order.cuts[stage]
            found = state.take(order.far[low:high], axis=1)
            found += more[:, low:high]
            value = found[1] * self.share[stage, :open_]
            value += np.maximum(found[0], led[low:high])
            value += self.sends[stage, :open_]
            value += rest[low:high]
            lost, goes_on, kept = self._split(value, limit, worth[stage, :open_])
            left[order.where[low:high]] = ~np.logical_and.reduce(lost, axis=1)
            closed = np.minimum.reduce(found[0] + (lost | goes_on) * NEVER, axis=1)
            state = np.full((2, self._width, kept + 1), NEVER)
            state[0, cuts, 0] = np.minimum.reduceat(closed, first)
            if np.greater(goes_on, lost, out=goes_on).any():
                np.copyto(found, NEVER, where=~goes_on)
                state[:, cuts, 1:] = np.minimum.reduceat(found[..., :kept], first, axis=1)
            lengths = (np.minimum.reduce(state[0], axis=0) < NEVER).nonzero()[0]
            if not len(lengths):
                return False
            state = state[:, :, : int(lengths[-1]) + 1]
            state[1, :, 0] = (state[0, :, 0] >= NEVER) * NEVER
            before[stage + 1] = np.minimum.reduce(state[0], axis=1)
        self._before = before
        self._waits, self.way, self.rest = self._waits[:, left], self.way[left], ends[left]
        self._look_at(runs.taking(left))
        return True

    def plan(self, places: list[int]) -> tuple[Cut, ...]:
        """The plan that cuts at these places of the windows."""
        edges = self._candidates.offset + np.array(places)
        return tuple(itertools.pairwise(edges.tolist()))
