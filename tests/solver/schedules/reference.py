"""A second simulator for any order of work: end times by recursion, one task at a time."""

from __future__ import annotations

import itertools
import random
from functools import cache

import numpy as np

from solver.schedules import (
    Chimera,
    GPipe,
    Interleaved,
    OneForwardOneBackward,
    Schedule,
    StageTimes,
    Work,
    ZeroBubbleH1,
    ZeroBubbleV,
)
from solver.schedules.schedule import Order


class EveryWork(OneForwardOneBackward):
    """1F1B that recomputes ahead, and makes the gradients of weights one backward later."""

    name = "every-work"
    work = (Work.FORWARD, Work.BACKWARD, Work.WEIGHT, Work.RECOMPUTE)

    def order(self, device: int) -> Order:
        """R before every B, and after it the W of the micro-batch before."""
        tasks = []
        for work, stage, micro_batch in super().order(device).tolist():
            if work == Work.BACKWARD:
                tasks.append((Work.RECOMPUTE, stage, micro_batch))
            tasks.append((work, stage, micro_batch))
            if work == Work.BACKWARD and micro_batch > 0:
                tasks.append((Work.WEIGHT, stage, micro_batch - 1))
        tasks.append((Work.WEIGHT, device, self.micro_batches - 1))
        return np.array(tasks, dtype=np.int64)


SCHEDULES: tuple[Schedule, ...] = (
    GPipe(1, 3),
    GPipe(4, 1),
    GPipe(3, 5),
    OneForwardOneBackward(1, 4),
    OneForwardOneBackward(5, 2),
    OneForwardOneBackward(4, 4),
    OneForwardOneBackward(3, 9),
    Interleaved(2, 2, 2),
    Interleaved(3, 6, 2),
    Interleaved(4, 8, 3),
    Interleaved(2, 5, 3),
    Interleaved(2, 8, 2, group=4),
    EveryWork(1, 3),
    EveryWork(4, 6),
    ZeroBubbleH1(1, 3),
    ZeroBubbleH1(4, 2),
    ZeroBubbleH1(4, 9),
    ZeroBubbleV(1, 3),
    ZeroBubbleV(3, 2),
    ZeroBubbleV(3, 8),
    Chimera(2, 2),
    Chimera(4, 6),
    Chimera(4, 12),
)


def times_of(rng: random.Random, stages: int) -> StageTimes:
    """Random times, the work done once per iteration included; some of it zero."""

    def draw(high: float) -> list[float]:
        return [
            rng.choice([0.0, rng.uniform(0, high), rng.uniform(0, high)]) for _ in range(stages)
        ]

    return StageTimes.of(
        forward=draw(3),
        backward=draw(5),
        send=rng.choice([0.0, rng.uniform(0, 1)]),
        before_first=draw(4),
        after_last=draw(4),
        step=draw(2),
        weight=draw(3),
        recompute=draw(3),
    )


def makespan(schedule: Schedule, times: StageTimes) -> float:
    """The iteration time, from the definition in words."""
    order = {
        device: [(Work(w), int(s), int(m)) for w, s, m in schedule.order(device)]
        for device in range(schedule.devices)
    }
    before = {
        task: previous for tasks in order.values() for previous, task in itertools.pairwise(tasks)
    }
    last = schedule.depth - 1

    @cache
    def end(work: Work, stage: int, micro_batch: int) -> float:
        start = times.before_first[0, stage] if (work, stage, micro_batch) not in before else 0.0
        if (work, stage, micro_batch) in before:
            start = end(*before[work, stage, micro_batch])
        needs: tuple[Work, int, int] | None = None
        if work is Work.FORWARD and stage % schedule.depth:
            needs = (work, stage - 1, micro_batch)
        elif work is Work.BACKWARD and stage % schedule.depth == last:
            needs = (Work.FORWARD, stage, micro_batch)
        elif work is Work.BACKWARD:
            needs = (work, stage + 1, micro_batch)
        if needs is not None:
            far = schedule.device(needs[1]) != schedule.device(stage)
            start = max(start, end(*needs) + (times.send if far else 0.0))
        return float(start + times.of_work(work)[0, stage])

    passes = [
        max(end(*task) for tasks in order.values() for task in tasks if task[1] == stage)
        + times.after_last[0, stage]
        for stage in range(schedule.stages)
    ]
    steps = [
        sum(times.step[0, stage] for stage in schedule.stages_of(device))
        for device in range(schedule.devices)
    ]
    return float(max(passes) + max(steps))
