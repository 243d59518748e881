"""A schedule as a graph of tasks, levelled so that a whole level can be computed at once.

A task starts when the task before it on its device has ended and its input is there:

- F(s, m) after F(s - 1, m), plus a send when the two stages stand on different devices;
- B(s, m) after B(s + 1, m), plus a send likewise; B of the last stage after F of the last stage;
- W(s, m), the gradient of the weights, and R(s, m), recompute ahead of B(s, m), wait for their
  device only; W(s, m) stands after B(s, m) in its order, R(s, m) before.

Where several pipelines stand side by side (``Schedule.depth``), each has its own first and last
stage.

Nodes are sorted by level (longest path in tasks), so predecessors always stand in lower levels.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from solver.errors import SolverFailed
from solver.schedules.schedule import ByKey, Order, Schedule, Work

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ScheduleGraph:
    """The tasks of all devices in level order; arrays have shape (nodes,) unless said otherwise.

    ``tasks`` has rows of (work, stage, micro-batch). ``previous`` and ``dependency`` index nodes; a
    task with no predecessor on its device points to the source of its stage, ``nodes + stage``, and
    a task with no dependency to ``nodes + stages``, a source at time zero. ``sends`` is 1 where the
    dependency stands on another device. ``duration`` indexes a table laid out as work x stage, of
    the kinds of work in ``schedule.work``. ``levels`` bounds the slices of nodes of one level.
    ``last_of_stage`` has shape (stages,).
    """

    schedule: Schedule
    tasks: Order
    previous: Index
    dependency: Index
    sends: npt.NDArray[np.float64]
    duration: Index
    levels: tuple[tuple[int, int], ...]
    last_of_stage: Index

    @property
    def stages(self) -> int:
        """Number of (virtual) stages."""
        return self.schedule.stages

    @property
    def nodes(self) -> int:
        """Number of tasks."""
        return len(self.tasks)


def schedule_graph(schedule: Schedule) -> ScheduleGraph:
    """The graph of a schedule; equal schedules share one.

    Raises:
        SolverFailed: If the order deadlocks (a schedule with a bug, never a request).
    """
    tasks = len(schedule.work) * schedule.stages * schedule.passes
    return (_large_graph if tasks > _LARGE else _small_graph)(ByKey(schedule))


def _graph(keyed: ByKey) -> ScheduleGraph:
    schedule = keyed.schedule
    stages, passes = schedule.stages, schedule.passes
    orders = [schedule.order(device) for device in range(schedule.devices)]
    count = sum(len(order) for order in orders)
    if count != len(schedule.work) * stages * passes:
        raise SolverFailed(f"The order of schedule '{schedule.name}' leaves out tasks.")
    kind = np.zeros(len(Work), dtype=np.int64)
    kind[list(schedule.work)] = np.arange(len(schedule.work))

    def number(rows: Order) -> Index:
        """Tasks numbered as kind of work x stage x micro-batch."""
        return np.asarray((kind[rows[:, 0]] * stages + rows[:, 1]) * passes + rows[:, 2])

    tasks = np.empty((count, 3), dtype=np.int64)
    previous = np.full(count, -1, dtype=np.int64)
    turn = np.full(count, -1, dtype=np.int64)
    last_of_stage = np.zeros(stages, dtype=np.int64)
    for order in orders:
        numbers = number(order)
        tasks[numbers] = order
        turn[numbers] = np.arange(len(order))
        previous[numbers[1:]] = numbers[:-1]
        last_of_stage[order[:, 1]] = numbers  # the last assignment stands
    _check_turns(schedule, turn)
    dependency = _dependencies(schedule, tasks)
    level = _levels(schedule, previous, dependency)

    by_level = np.lexsort((np.arange(count), level))
    place = np.empty(count + 1, dtype=np.int64)
    place[by_level], place[-1] = np.arange(count), -1
    tasks, previous, dependency = tasks[by_level], previous[by_level], dependency[by_level]
    device = np.array([schedule.device(stage) for stage in range(stages)])
    crosses = device[tasks[:, 1]] != device[dependency // passes % stages]
    bounds = np.searchsorted(level[by_level], np.arange(level.max() + 2))
    return ScheduleGraph(
        schedule=schedule,
        tasks=tasks,
        previous=np.where(previous < 0, count + tasks[:, 1], place[previous]),
        dependency=np.where(dependency < 0, count + stages, place[dependency]),
        sends=np.where((dependency >= 0) & crosses, 1.0, 0.0),
        duration=kind[tasks[:, 0]] * stages + tasks[:, 1],
        levels=tuple((int(low), int(high)) for low, high in itertools.pairwise(bounds)),
        last_of_stage=place[last_of_stage],
    )


_LARGE = 1 << 13
"""Tasks; a graph takes about a hundred bytes for each, so few of the large ones are remembered."""
_small_graph = lru_cache(maxsize=64)(_graph)
_large_graph = lru_cache(maxsize=8)(_graph)


def _check_turns(schedule: Schedule, turn: Index) -> None:
    """Every task stands once, W after its B and R before it.

    ``turn`` is each task's place in its device's order, by number.
    """
    turns = dict(zip(schedule.work, turn.reshape(len(schedule.work), -1), strict=True))
    backward = turns[Work.BACKWARD]
    early = Work.WEIGHT in turns and (turns[Work.WEIGHT] < backward).any()
    late = Work.RECOMPUTE in turns and (turns[Work.RECOMPUTE] > backward).any()
    if (turn < 0).any() or early or late:
        raise SolverFailed(f"The order of schedule '{schedule.name}' misplaces tasks.")


def _dependencies(schedule: Schedule, tasks: Order) -> Index:
    """Per task number, the task of another stage that it waits for (or -1)."""
    passes, depth = schedule.passes, schedule.depth
    work, stage, _ = tasks.T
    size = schedule.stages * passes  # tasks of one kind of work
    number = np.arange(len(tasks))
    place = {kind: number - size * at for at, kind in enumerate(schedule.work)}
    before = number - passes
    behind = number + passes
    turned = place[Work.BACKWARD] + size * schedule.work.index(Work.FORWARD)
    forward = np.where(stage % depth > 0, before, -1)
    backward = np.where(stage % depth < depth - 1, behind, turned)
    return np.select([work == Work.FORWARD, work == Work.BACKWARD], [forward, backward], -1)


def _levels(schedule: Schedule, previous: Index, dependency: Index) -> Index:
    """Longest path to each task, in tasks: Kahn's algorithm, a level at a time."""
    count = len(previous)
    followers = np.full((2, count), -1, dtype=np.int64)
    for row, predecessor in zip(followers, (previous, dependency), strict=True):
        has = predecessor >= 0
        row[predecessor[has]] = np.flatnonzero(has)
    waiting = (previous >= 0).astype(np.int64) + (dependency >= 0)
    level = np.full(count, -1, dtype=np.int64)
    ready, height = np.flatnonzero(waiting == 0), 0
    while len(ready):
        level[ready] = height
        height += 1
        released = followers[:, ready].ravel()
        released = released[released >= 0]
        np.subtract.at(waiting, released, 1)
        ready = np.unique(released[waiting[released] == 0])
    if (level < 0).any():
        raise SolverFailed(f"The order of schedule '{schedule.name}' deadlocks.")
    return level
