"""A second simulator for any order of work: end times by recursion, one task at a time."""

from __future__ import annotations

import itertools
import random
from functools import cache

from solver.schedules import GPipe, Interleaved, OneForwardOneBackward, Schedule, StageTimes, Work

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
    last = schedule.stages - 1

    @cache
    def end(work: Work, stage: int, micro_batch: int) -> float:
        start = times.before_first[0, stage] if (work, stage, micro_batch) not in before else 0.0
        if (work, stage, micro_batch) in before:
            start = end(*before[work, stage, micro_batch])
        needs: tuple[Work, int, int]
        if work is Work.FORWARD:
            source = stage - 1 if stage else None
            needs = (work, stage - 1, micro_batch)
        elif stage == last:
            source, needs = stage, (Work.FORWARD, stage, micro_batch)
        else:
            source, needs = stage + 1, (work, stage + 1, micro_batch)
        if source is not None:
            far = schedule.device(source) != schedule.device(stage)
            start = max(start, end(*needs) + (times.send if far else 0.0))
        return float(start + (times.forward, times.backward)[work][0, stage])

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
