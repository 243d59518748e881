"""Replicas that lend each other their stages: an order that can be run, and its bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.contingencies.rerouted import Lanes, bound, rerouted, run
from solver.schedules import StageTimes, make_schedule, schedule_graph, simulate

Task = tuple[int, int, int, int]
"""Forward or backward, stage, micro-batch, replica of origin."""


def lanes(stages: int, replicas: int, seed: int, lost: tuple[tuple[int, int], ...] = ()) -> Lanes:
    random = np.random.default_rng(seed)
    alive = np.ones((stages, replicas), dtype=bool)
    for stage, replica in lost:
        alive[stage, replica] = False

    def each(low: float, high: float) -> tuple[float, ...]:
        return tuple(float(value) for value in random.uniform(low, high, stages))

    return Lanes(
        alive=alive,
        forward=each(0.8, 1.2),
        backward=each(1.6, 2.4),
        before=(0.0,) * stages,
        after=each(0.0, 0.5),
        step=each(0.0, 0.2),
        send=float(random.uniform(0, 0.1)),
        room=(100,) * stages,
    )


@pytest.mark.parametrize("seed", range(5))
def test_with_nothing_lost_it_is_at_least_as_fast_as_1f1b(seed: int) -> None:
    found = lanes(4, 3, seed)
    times = StageTimes.of(
        found.forward, found.backward, found.send, None, found.after, found.step
    )  # fmt: skip
    usual = simulate(schedule_graph(make_schedule("1f1b", 4, 9)), times).makespan[0]
    assert rerouted(found, 9) <= usual * (1 + 1e-9)


@given(
    stages=st.integers(1, 4),
    replicas=st.integers(2, 4),
    micro_batches=st.integers(1, 8),
    seed=st.integers(0, 1000),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_no_run_is_faster_than_its_bound_and_losing_more_is_no_faster_than_work_allows(
    stages: int, replicas: int, micro_batches: int, seed: int, data: st.DataObject
) -> None:
    cells = list(itertools.product(range(stages), range(replicas - 1)))
    lost = data.draw(st.sets(st.sampled_from(cells), max_size=2))
    found = lanes(stages, replicas, seed, tuple(sorted(lost)))
    seconds = rerouted(found, micro_batches)
    assert seconds >= bound(found, micro_batches) * (1 - 1e-9)
    assert bound(found, micro_batches) >= bound(lanes(stages, replicas, seed), micro_batches) - 1e-9


@pytest.mark.slow
def test_the_best_of_all_orders_lies_between_the_bound_and_the_answer() -> None:
    found = lanes(2, 2, 1, ((0, 0),))
    best = _best_of_all_orders(found, 2)
    assert bound(found, 2) <= best + 1e-9
    assert rerouted(found, 2) <= best * 1.05


def _best_of_all_orders(found: Lanes, micro_batches: int) -> float:
    """Of two stages and two replicas.

    The answer is an order; branches for a better one over the tasks that may begin before the
    earliest end among all (Giffler and Thompson 1960): some best order is among those.
    """
    batches = [(batch, origin) for batch in range(micro_batches) for origin in range(2)]

    tasks = [(work, stage, *b) for work in range(2) for stage in range(2) for b in batches]

    def device(task: Task) -> tuple[int, int]:
        _, stage, _, origin = task
        return stage, origin if found.alive[stage, origin] else 1 - origin

    def before(task: Task) -> tuple[Task, float] | None:
        work, stage, batch, origin = task
        if work == 0:
            return None if stage == 0 else ((0, 0, batch, origin), found.send)
        if stage == 1:
            return (0, 1, batch, origin), 0.0
        return (1, 1, batch, origin), found.send

    best = rerouted(found, micro_batches)

    shortest = min(found.after) + max(found.step)

    def search(ends: dict[Task, float], free: dict[tuple[int, int], float]) -> None:
        nonlocal best
        left = dict(free)
        for task in tasks:
            if task not in ends:
                left[device(task)] += (found.forward, found.backward)[task[0]][task[1]]
        if max(left.values()) + shortest >= best:
            return
        if len(ends) == len(tasks):
            last = [
                max(end for (_, s, *_), end in ends.items() if s == stage) + found.after[stage]
                for stage in range(2)
            ]
            best = min(best, max(last) + max(found.step))
            return
        ready = []
        for task in tasks:
            if task in ends:
                continue
            need = before(task)
            if need is not None and need[0] not in ends:
                continue
            # Micro-batches of an origin go in order: they are alike.
            work, stage, batch, origin = task
            if batch and (work, stage, batch - 1, origin) not in ends:
                continue
            arrived = 0.0 if need is None else ends[need[0]] + need[1]
            begin = max(arrived, free[device(task)])
            length = (found.forward, found.backward)[work][stage]
            ready.append((begin, begin + length, task))
        horizon = min(end for _, end, _ in ready)
        for begin, end, task in ready:
            if begin < horizon:
                search({**ends, task: end}, {**free, device(task): end})

    search({}, {(stage, replica): 0.0 for stage in range(2) for replica in range(2)})
    return float(best)


def test_a_long_run_goes_on_as_its_simulated_part_ends() -> None:
    found = lanes(3, 3, 7, ((1, 0),))
    whole = min(run(found, 700, room) for room in (found.usual(), found.wide()))
    assert rerouted(found, 700) == pytest.approx(whole, rel=5e-3)
    assert rerouted(found, 700) >= bound(found, 700)
