"""Makespans of 1F1B and its kin a slot at a time: many stages, and many pipelines, in one step.

Stage s runs F(s, j) and B(s, j - p + s + 1) one after the other, where there are such
micro-batches: its slot j. A forward comes down from the stage before in the same slot, a backward
up from the stage behind out of the slot before. Let q(s) be the forwards and sends on the way down
to stage s, and x(s) the end of its slot less q(s). A slot in mid-iteration is then ::

    x'(s) = max( max over r <= s of x(r),  x(s + 1) + 2 send ) + F(s) + B(s)

so that all stages of a slot are a running maximum and a shift. ZB-H1's gradients of weights and
recompute ahead of the gradient stand in the same slots. The simulator goes task by task and knows
when each ends; where only the makespan is asked for, this is several times quicker.
"""

from __future__ import annotations

import numpy as np

from solver.schedules.ahead import Ahead
from solver.schedules.graph import schedule_graph
from solver.schedules.one_f_one_b import OneForwardOneBackward
from solver.schedules.schedule import Schedule, Work
from solver.schedules.simulate import Floats, StageTimes, simulate

LOOK_BACK = 24
"""Slots after which it is looked whether they repeat themselves; intervals of many lengths do."""

EQUAL = 1e-12
"""Relative difference of two numbers of seconds that are sums of the same ones."""


def makespans(schedule: Schedule, times: StageTimes) -> Floats:
    """The makespan of every candidate, shape (candidates,), as ``simulate`` has it."""
    plain = schedule.plain if isinstance(schedule, Ahead) else schedule
    if isinstance(plain, OneForwardOneBackward):
        return _Slots(schedule, times).makespans()
    return simulate(schedule_graph(schedule), times).makespan


class _Slots:
    """One run over all slots; arrays have shape (stages, candidates)."""

    def __init__(self, schedule: Schedule, times: StageTimes) -> None:
        self._p, self._n, self._times = schedule.devices, schedule.micro_batches, times
        stage = np.arange(self._p)[:, None]
        self._forward = np.ascontiguousarray(times.forward.T)
        self._backward = np.ascontiguousarray(times.backward.T)
        self._both = self._forward + self._backward
        self._way = np.cumsum(self._forward, axis=0) - self._forward + times.send * stage
        self._weight = self._ahead = None
        if Work.WEIGHT in schedule.work:
            self._weight = np.ascontiguousarray(times.of_work(Work.WEIGHT).T)
        if Work.RECOMPUTE in schedule.work:
            self._ahead = np.ascontiguousarray(times.of_work(Work.RECOMPUTE).T)
        self._ends = times.before_first.T - self._way
        self._come = np.empty_like(self._ends)
        self._up = np.full_like(self._ends, -np.inf)

    def makespans(self) -> Floats:
        p, n = self._p, self._n
        if self._weight is None and self._ahead is None and n >= p:
            self._plain_warm_up()
            self._steady(n - p + 1)
            self._plain_cool_down()
        else:
            for slot in range(min(p - 1, n)):
                self._warm_up(slot)
            for slot in range(p - 1, n):
                self._turn(slot)
            for slot in range(n, n + p - 1):
                self._cool_down(slot)
        ends = self._ends + self._way + self._times.after_last.T
        if self._weight is not None:
            ends += np.minimum(np.arange(p), n)[:, None] * self._weight
        return np.asarray(ends.max(axis=0) + self._times.step.max(axis=1))

    def _steady(self, slots: int) -> None:
        """Slots in which every stage runs a forward and a backward, as above.

        What slots do commutes with adding seconds to all stages. So where a slot ends that much
        after an earlier one on every stage, all that follows repeats itself.
        """
        skipped = 0
        while slots > 2 * LOOK_BACK + skipped:
            self._steady_slots(skipped)
            slots -= skipped
            skipped = 2 * skipped or LOOK_BACK
            earlier = np.empty((LOOK_BACK, *self._ends.shape))
            for kept in earlier:
                kept[:] = self._ends
                self._steady_slots(1)
            slots -= LOOK_BACK
            longer = self._ends - earlier
            shortest, longest = longer.min(axis=1), longer.max(axis=1)
            alike = (longest - shortest <= EQUAL * longest).all(axis=1).nonzero()[0]
            if len(alike):
                period = LOOK_BACK - int(alike[-1])
                self._ends += slots // period * longest[alike[-1]]
                slots %= period
        self._steady_slots(slots)

    def _steady_slots(self, slots: int) -> None:
        ends, come, up, both = self._ends, self._come, self._up, self._both
        behind, above = ends[1:], up[:-1]
        there = 2.0 * self._times.send
        accumulate, add, maximum = np.maximum.accumulate, np.add, np.maximum
        for _ in range(slots):
            accumulate(ends, axis=0, out=come)
            add(behind, there, out=above)
            maximum(come, up, out=come)
            add(come, both, out=ends)

    def _plain_warm_up(self) -> None:
        """``_warm_up`` of all slots, where every stage has micro-batches until the steady ones.

        Stages that run a forward alone wait for nothing from behind, and have no backward.
        """
        p, ends, come, up = self._p, self._ends, self._come, self._up
        slot, stage = np.ogrid[: p - 1, :p]
        turns = stage >= p - 1 - slot
        there = np.where(turns, 2.0 * self._times.send, -np.inf)[..., None]
        both = np.where(turns[..., None], self._both, self._forward)
        behind, above = ends[1:], up[:-1]
        for later, seconds in zip(there[:, :-1], both, strict=True):
            np.maximum.accumulate(ends, axis=0, out=come)
            np.add(behind, later, out=above)
            np.maximum(come, up, out=come)
            np.add(come, seconds, out=ends)

    def _plain_cool_down(self) -> None:
        """``_cool_down`` of all slots: stages that have no backward left stand as they are."""
        p, ends, up = self._p, self._ends, self._up
        slot, stage = np.ogrid[: p - 1, :p]
        turns = (stage < p - 1 - slot)[..., None]
        there = np.where(turns, 2.0 * self._times.send + self._forward, -np.inf)
        backward = np.where(turns, self._backward, 0.0)
        behind, above = ends[1:], up[:-1]
        for later, seconds in zip(there[:, :-1], backward, strict=True):
            np.add(behind, later, out=above)
            np.maximum(ends, up, out=ends)
            np.add(ends, seconds, out=ends)

    def _warm_up(self, slot: int) -> None:
        """Stages before ``first`` run a forward alone."""
        first = self._p - 1 - slot
        self._arrive(slot)
        np.maximum.accumulate(self._ends, axis=0, out=self._come)
        self._run(slice(first, self._p), self._come, self._both, slot)
        np.add(self._come[:first], self._forward[:first], out=self._ends[:first])

    def _turn(self, slot: int) -> None:
        """Every stage runs a forward and a backward."""
        self._arrive(slot)
        np.maximum.accumulate(self._ends, axis=0, out=self._come)
        self._run(slice(0, self._p), self._come, self._both, slot)

    def _cool_down(self, slot: int) -> None:
        """Stages that have backwards left run one alone."""
        p, n = self._p, self._n
        self._arrive(slot)
        np.add(self._up, self._forward, out=self._up)
        runs = slice(max(p - 1 - slot, 0), n + p - 1 - slot)
        self._run(runs, self._ends, self._backward, slot)
        self._up[-1] = -np.inf

    def _arrive(self, slot: int) -> None:
        """When each stage's backward has what it waits for from behind."""
        np.add(self._ends[1:], 2.0 * self._times.send, out=self._up[:-1])
        if self._weight is not None and slot >= self._p:
            self._up[:-1] -= self._weight[1:]

    def _run(self, runs: slice, come: Floats, seconds: Floats, slot: int) -> None:
        """The slot of these stages, whose device and forward ``come`` to it."""
        if self._ahead is not None:
            come = come + self._ahead
        self._ends[runs] = np.maximum(come[runs], self._up[runs]) + seconds[runs]
        if self._weight is not None and slot >= self._p - 1:
            self._ends[runs] += self._weight[runs]
