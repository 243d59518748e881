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

import numpy as np

from solver.partition.candidates import Bools, Candidates, Cut
from solver.partition.walk_steps import NEVER, Step, steps_of
from solver.schedules import Schedule
from solver.schedules.simulate import Floats

LONGEST = 48
"""Stages of the longest interval that is followed."""


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
        self._steps = steps_of(candidates)
        stage = np.arange(self._p)[:, None]
        longest = min(self._p, LONGEST)
        length = np.arange(1, longest + 1)
        slots = self._n - self._p + stage
        trips, rest = np.divmod(slots, length)
        # A trip's share of the slots, and the sends of all trips and of the way to the stage.
        some = trips > 0
        self._share = np.where(some, slots / length, 0.0)
        sends = self._there * (stage + (trips * (length - 1) + np.maximum(rest - 2, 0)) * some)
        self._sends = np.where(slots > 0, sends, -NEVER)  # too few micro-batches for stage's paths
        self._first_bounds()

    def _first_bounds(self) -> None:
        """Least sums before every cut, and S and E behind it, whatever the limit.

        Shapes (stages + 1, cuts); S and E hold the stage behind the cut and the way to it.
        """
        before = np.full((self._p + 1, self._width), NEVER)
        first, last = before.copy(), before.copy()
        before[0, 0] = first[-1, 0] = last[-1, 0] = 0.0
        for stage, steps in enumerate(self._steps):
            for step in steps:
                into = before[stage + 1, step.stop]
                np.minimum(into, before[stage, step.start] + step.led, out=into)
        slow = np.full((2, *before.shape), NEVER)
        slow[:, 0, 0] = 0.0
        for stage, steps in enumerate(self._steps):
            for step in steps:
                for table, seconds in zip(slow, (step.forward, step.backward), strict=True):
                    into = table[stage + 1, step.stop]
                    longest = np.maximum(table[stage, step.start], seconds)
                    np.minimum(into, np.where(step.times < NEVER, longest, NEVER), out=into)
        self._slow = slow
        ways = np.full((2, *before.shape), NEVER)
        ways[:, 0, 0] = 0.0
        for stage, steps in enumerate(self._steps):
            for step in steps:
                sides = ((step.gather, step.forward), (step.reduction, step.backward))
                for table, (moved, seconds) in zip(ways, sides, strict=True):
                    into = table[stage + 1, step.stop]
                    found = np.maximum(table[stage, step.start], moved) + seconds + self._there / 2
                    np.minimum(into, np.where(step.times < NEVER, found, NEVER), out=into)
        self._ways = ways
        for stage in reversed(range(self._p)):
            for step in self._steps[stage]:
                down, up = self._behind(stage, step, first, last)
                way = step.times + self._there
                for table, seconds in ((first, down), (last, up)):
                    into = table[stage, step.start]
                    np.minimum(into, way + seconds, out=into)
        self._before, self._first, self._last = before, first, last

    def _behind(self, stage: int, step: Step, first: Floats, last: Floats) -> tuple[Floats, Floats]:
        """S and E of a stage's runs, shape (cuts,)."""
        waits = self._p - 1 - stage
        forward, backward = self._waiting(stage, step)
        down = np.maximum(waits * forward, first[stage + 1, step.stop])
        up = np.maximum(waits * backward, last[stage + 1, step.stop])
        return down, up

    def _led(self, stage: int, step: Step) -> Floats:
        """What leads to a stage's runs and follows them where that begins with the gather of any
        stage up to there, and ends with the reduction of any; shape (cuts,).

        Sends from and to the first stage, which ``_sends`` counts, are taken off.
        """
        down = np.maximum(self._ways[0, stage, step.start], step.gather)
        up = np.maximum(self._ways[1, stage, step.start], step.reduction)
        return np.asarray(down + up - self._there * stage)

    def _waiting(self, stage: int, step: Step) -> tuple[Floats, Floats]:
        forward = np.maximum(step.forward, self._slow[0, stage, step.start])
        backward = np.maximum(step.backward, self._slow[1, stage, step.start])
        return forward, backward

    def below(self, limit: float) -> tuple[Cut, ...]:
        """A plan that may take less than ``limit``, () if there is none.

        Runs of which no such plan is made are then no longer looked at, so that limits only fall.
        """
        behind = self._backward(limit)
        return () if behind is None else self._forward(limit, *behind)

    def alive(self) -> Bools:
        """The runs that are still looked at, shape (V, W, W)."""
        alive = np.zeros_like(self._candidates.alive)
        for stage, steps in enumerate(self._steps):
            for step in steps:
                start = np.flatnonzero(step.times < NEVER)
                alive[stage, step.start.start + start, step.stop.start + start] = True
        return alive

    def _forward(self, limit: float, first: Floats, last: Floats) -> tuple[Cut, ...]:
        before = np.full((self._width, 1), NEVER)
        before[0, 0] = 0.0
        interval = before.copy()
        history = [before]
        sums = np.full_like(self._before, NEVER)
        sums[0, 0] = 0.0
        left: list[list[Step]] = []
        for stage, steps in enumerate(self._steps):
            open_ = before.shape[1]
            share, sends = self._share[stage, :open_], self._sends[stage, :open_]
            worth = limit - share * self._there
            shape = (self._width, min(open_ + 1, self._share.shape[1]))
            before_next, interval_next = np.full(shape, NEVER), np.full(shape, NEVER)
            kept = shape[1] - 1
            left.append([])
            for step in steps:
                down, up = self._behind(stage, step, first, last)
                times = step.times[:, None]
                total = before[step.start] + step.led[:, None]
                inside = interval[step.start] + times
                value = inside * share
                value += np.maximum(total, (self._led(stage, step) + step.times)[:, None])
                value += sends
                value += (down + up + step.fixed)[:, None]
                lost = value >= limit
                gone = np.asarray(lost.all(axis=1))
                if gone.all():
                    continue
                left[-1].append(step.without(gone))
                total[lost] = NEVER
                goes_on = value > worth
                goes_on[:, kept:] = False
                if goes_on.any():
                    into = before_next[step.stop, 1:]
                    np.minimum(into, np.where(goes_on, total, NEVER)[:, :kept], out=into)
                    inside[lost | ~goes_on] = NEVER
                    into = interval_next[step.stop, 1:]
                    np.minimum(into, inside[:, :kept], out=into)
                    total[goes_on] = NEVER
                into = before_next[step.stop, 0]
                np.minimum(into, total.min(axis=1), out=into)
            reached = (before_next < NEVER).any(axis=0)
            if not reached.any():
                return ()
            wide = int(np.flatnonzero(reached)[-1]) + 1
            before, interval = before_next[:, :wide], interval_next[:, :wide]
            interval[:, 0] = np.where(before[:, 0] < NEVER, 0.0, NEVER)
            sums[stage + 1] = before.min(axis=1)
            history.append(before)
        plan = self._traced(history)
        self._before, self._first, self._last, self._steps = sums, first, last, left
        return plan

    def _backward(self, limit: float) -> tuple[Floats, Floats] | None:
        """S and E behind every cut among what may stay below the limit; None if nothing may."""
        p, width = self._p, self._width
        first, last = np.full((p + 1, width), NEVER), np.full((p + 1, width), NEVER)
        first[-1, 0] = last[-1, 0] = 0.0
        # Per cut and stages in the interval: S and E behind, S + E at the interval's end, its sum.
        state = np.full((4, width, 1), NEVER)
        state[:, 0, 0] = 0.0
        for stage in reversed(range(p)):
            open_ = state.shape[2]
            length = np.arange(open_)
            share, sends = self._share[stage + length, length], self._sends[stage + length, length]
            worth = limit - share * self._there
            following = np.full((4, width, min(open_ + 1, self._share.shape[1])), NEVER)
            kept = following.shape[2] - 1
            waits = p - 1 - stage
            for step in self._steps[stage]:
                found = state[:, step.stop].copy()
                forward, backward = self._waiting(stage, step)
                np.maximum(found[0], waits * forward[:, None], out=found[0])
                np.maximum(found[1], waits * backward[:, None], out=found[1])
                found[2, :, 0] = found[0, :, 0] + found[1, :, 0]
                times = step.times[:, None]
                found[3] += times
                value = found[3] * (share + 1.0)
                value += found[2]
                value += sends
                led = self._led(stage, step)
                led = np.maximum(led, self._before[stage, step.start])
                value += (led + step.fixed)[:, None]
                lost = value >= limit
                if lost.all():
                    continue
                found[:2] += times + self._there
                found[:, lost] = NEVER
                goes_on = value > worth
                goes_on[:, kept:] = False
                if goes_on.any():
                    into = following[:, step.start, 1:]
                    np.minimum(into, np.where(goes_on, found, NEVER)[:, :, :kept], out=into)
                    found[:2, goes_on] = NEVER
                into = following[:2, step.start, 0]
                np.minimum(into, found[:2].min(axis=2), out=into)
            reached = (following[0] < NEVER).any(axis=0)
            if not reached.any():
                return None
            state = following[:, :, : int(np.flatnonzero(reached)[-1]) + 1]
            state[2:, :, 0] = np.where(state[0, :, 0] < NEVER, 0.0, NEVER)
            first[stage], last[stage] = state[0].min(axis=1), state[1].min(axis=1)
        return first, last

    def _traced(self, history: list[Floats]) -> tuple[Cut, ...]:
        """A plan of least sum before, from the last stage to the first."""
        cut, length = 0, int(history[-1][0].argmin())
        places = [cut]
        for stage in reversed(range(self._p)):
            before, after = history[stage], history[stage + 1][cut, length]
            best = (NEVER, 0, 0)
            for step in self._steps[stage]:
                at = cut - step.stop.start
                if not 0 <= at < len(step.times):
                    continue
                start = step.start.start + at
                row = before[start] + step.led[at]
                choices = [length - 1] if length else range(len(row))
                best = min(
                    best,
                    *((abs(row[one] - after), start, one) for one in choices),
                    key=lambda b: b[0],
                )
            _, cut, length = best
            places.append(cut)
        edges = self._candidates.offset + np.array(places[::-1])
        return tuple(itertools.pairwise(edges.tolist()))
