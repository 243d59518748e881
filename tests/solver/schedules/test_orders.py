"""The orders of work: complete, free of deadlock, and holding as many micro-batches as they say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from solver.errors import SolverFailed
from solver.schedules import (
    GPipe,
    Interleaved,
    OneForwardOneBackward,
    Schedule,
    Work,
    make_schedule,
    schedule_graph,
)
from solver.schedules.schedule import Order
from tests.solver.schedules.reference import SCHEDULES, EveryWork

SIZES = list(itertools.product((1, 2, 3, 5), (1, 2, 4, 7)))


def every_task(schedule: Schedule, device: int) -> set[tuple[int, int, int]]:
    return {
        (work, stage, micro_batch)
        for work in schedule.work
        for stage in schedule.stages_of(device)
        for micro_batch in range(schedule.passes)
    }


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_every_device_runs_each_of_its_tasks_once(schedule: Schedule) -> None:
    for device in range(schedule.devices):
        order = [tuple(task) for task in schedule.order(device).tolist()]
        assert len(order) == len(set(order))
        assert set(order) == every_task(schedule, device)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_orders_run_to_their_end(schedule: Schedule) -> None:
    assert unfinished(schedule) == 0
    tasks = len(schedule.work) * schedule.stages * schedule.passes
    assert schedule_graph(schedule).nodes == tasks


def unfinished(schedule: Schedule) -> int:
    """Tasks left when no device can go on."""
    waiting = [schedule.order(device).tolist() for device in range(schedule.devices)]
    done: set[tuple[int, int, int]] = set()
    while any(tasks and ready(schedule, tasks[0], done) for tasks in waiting):
        for tasks in waiting:
            while tasks and ready(schedule, tasks[0], done):
                work, stage, micro_batch = tasks.pop(0)
                done.add((work, stage, micro_batch))
    return sum(map(len, waiting))


def ready(schedule: Schedule, task: list[int], done: set[tuple[int, int, int]]) -> bool:
    work, stage, micro_batch = task
    if work == Work.FORWARD:
        return stage % schedule.depth == 0 or (work, stage - 1, micro_batch) in done
    if work == Work.WEIGHT:
        return (Work.BACKWARD, stage, micro_batch) in done
    if work == Work.RECOMPUTE:
        return (Work.BACKWARD, stage, micro_batch) not in done
    if stage % schedule.depth == schedule.depth - 1:
        return (Work.FORWARD, stage, micro_batch) in done
    return (work, stage + 1, micro_batch) in done


@pytest.mark.parametrize(("devices", "micro_batches"), SIZES)
def test_1f1b_holds_the_stages_ahead_of_it_at_most(devices: int, micro_batches: int) -> None:
    schedule = OneForwardOneBackward(devices, micro_batches)
    for stage in range(devices):
        assert schedule.in_flight(stage) == min(devices - stage, micro_batches)


@pytest.mark.parametrize(("devices", "micro_batches"), SIZES)
def test_gpipe_holds_every_micro_batch(devices: int, micro_batches: int) -> None:
    schedule = GPipe(devices, micro_batches)
    assert {schedule.in_flight(stage) for stage in range(devices)} == {micro_batches}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_in_flight_is_what_the_order_holds_at_most(schedule: Schedule) -> None:
    for stage in range(schedule.stages):
        assert schedule.in_flight(stage) == max(alive(schedule, [stage]))


@pytest.mark.parametrize(("devices", "chunks"), [(2, 2), (4, 2), (4, 3), (8, 4)])
def test_interleaved_holds_its_warm_up_and_one_more_chunk_pass(devices: int, chunks: int) -> None:
    """Narayanan et al. 2021: 2 (p - d - 1) + (v - 1) p chunk passes run ahead."""
    schedule = Interleaved(devices, 4 * devices, chunks)
    for device in range(devices):
        warm_up = 2 * (devices - device - 1) + (chunks - 1) * devices
        assert max(alive(schedule, schedule.stages_of(device))) == warm_up + 1


def alive(schedule: Schedule, stages: list[int]) -> Iterator[int]:
    """Micro-batches that these stages of one device hold, after each task."""
    held = 0
    for work, stage, _ in schedule.order(schedule.device(stages[0])).tolist():
        if stage in stages:
            held += (work == Work.FORWARD) - (work == Work.BACKWARD)
            yield held


def test_1f1b_over_several_chunks_is_the_interleaved_one() -> None:
    names = {make_schedule("1f1b", 4, 8, chunks).name for chunks in (2, 3)}
    assert names == {"interleaved"}
    assert make_schedule("1f1b", 4, 8).name == "1f1b"


def test_a_schedule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no schedule 'sideways'"):
        make_schedule("sideways", 4, 8)
    with pytest.raises(ValueError, match="2 virtual stages"):
        make_schedule("gpipe", 4, 8, 2)


class Backwards(OneForwardOneBackward):
    """A backward pass before its forward."""

    name = "backwards"

    def order(self, device: int) -> Order:
        return super().order(device)[::-1]


class Forgetful(OneForwardOneBackward):
    """The last task left out."""

    name = "forgetful"

    def order(self, device: int) -> Order:
        return super().order(device)[:-1]


def test_an_order_that_deadlocks_is_found() -> None:
    with pytest.raises(SolverFailed, match="deadlocks"):
        schedule_graph(Backwards(2, 3))


def test_an_order_that_leaves_out_tasks_is_found() -> None:
    with pytest.raises(SolverFailed, match="leaves out tasks"):
        schedule_graph(Forgetful(2, 3))


class WeightsFirst(EveryWork):
    """A gradient of weights before the backward that it belongs to."""

    name = "weights-first"

    def order(self, device: int) -> Order:
        order = super().order(device)
        weights = order[:, 0] == Work.WEIGHT
        return np.concatenate([order[weights], order[~weights]])


def test_an_order_with_weights_before_their_backward_is_an_error_of_the_solver() -> None:
    with pytest.raises(SolverFailed, match="misplaces"):
        schedule_graph(WeightsFirst(2, 3))


def test_predecessors_stand_in_lower_levels() -> None:
    graph = schedule_graph(Interleaved(3, 6, 2))
    level = np.zeros(graph.nodes + graph.stages + 1, dtype=int)
    for height, (low, high) in enumerate(graph.levels, start=1):
        level[low:high] = height
    assert (level[graph.previous] < level[: graph.nodes]).all()
    assert (level[graph.dependency] < level[: graph.nodes]).all()
