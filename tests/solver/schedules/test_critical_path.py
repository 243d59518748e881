"""Critical paths: as long as the makespan, and lower bounds whatever the times."""

from __future__ import annotations

import random

import pytest

from solver.schedules import (
    OneForwardOneBackward,
    Schedule,
    StageTimes,
    critical_path,
    schedule_graph,
    simulate,
)
from tests.solver.schedules.reference import SCHEDULES, times_of


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_the_critical_path_is_as_long_as_the_makespan(schedule: Schedule) -> None:
    for seed in range(10):
        times = times_of(random.Random(seed), schedule.stages)
        simulation = simulate(schedule_graph(schedule), times)
        length = critical_path(simulation).length(times)[0]
        assert length == pytest.approx(simulation.makespan[0], rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_a_path_bounds_the_makespan_of_all_other_times(schedule: Schedule) -> None:
    graph = schedule_graph(schedule)
    pipelines = [times_of(random.Random(seed), schedule.stages) for seed in range(10)]
    simulations = [simulate(graph, times) for times in pipelines]
    for simulation in simulations:
        path = critical_path(simulation)
        for times, other in zip(pipelines, simulations, strict=True):
            assert path.length(times)[0] <= other.makespan[0] * (1 + 1e-12)


def test_each_of_many_pipelines_has_its_own_critical_path() -> None:
    schedule = OneForwardOneBackward(3, 9)
    forward = [[1.0, 1.0, 9.0], [9.0, 1.0, 1.0]]
    times = StageTimes.of(forward, [[1.0] * 3] * 2)
    simulation = simulate(schedule_graph(schedule), times)
    paths = [critical_path(simulation, candidate) for candidate in range(2)]
    n = schedule.micro_batches
    assert paths[0].forward[2] == n
    assert paths[1].forward[0] == n
    for candidate, path in enumerate(paths):
        assert path.length(times)[candidate] == simulation.makespan[candidate]


def test_sends_on_the_path_are_counted() -> None:
    schedule = OneForwardOneBackward(5, 2)
    times = StageTimes.of([1.0] * 5, [1.0] * 5, send=100.0)
    path = critical_path(simulate(schedule_graph(schedule), times))
    assert path.sends >= 2 * (schedule.devices - 1)
