"""The simulator against slow twins, closed forms and itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.schedules import (
    Interleaved,
    Schedule,
    StageTimes,
    make_schedule,
    schedule_graph,
    simulate,
)
from tests.solver import exhaustive
from tests.solver.schedules import reference
from tests.solver.schedules.reference import SCHEDULES, times_of


def simulated(schedule: Schedule, times: StageTimes) -> float:
    return float(simulate(schedule_graph(schedule), times).makespan[0])


@pytest.mark.parametrize("name", ["1f1b", "gpipe"])
@pytest.mark.parametrize("seed", range(60))
def test_makespan_equals_the_slow_twins(name: str, seed: int) -> None:
    rng = random.Random(seed)
    stages, n = rng.randint(1, 6), rng.randint(1, 12)
    forward = [rng.uniform(0, 3) for _ in range(stages)]
    backward = [rng.uniform(0, 6) for _ in range(stages)]
    send = rng.choice([0.0, rng.uniform(0, 2)])
    found = simulated(make_schedule(name, stages, n), StageTimes.of(forward, backward, send))
    assert found == pytest.approx(exhaustive.makespan(name, forward, backward, n, send), rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_makespan_counts_gathers_reductions_and_updates(schedule: Schedule) -> None:
    for seed in range(8):
        times = times_of(random.Random(seed), schedule.stages)
        expected = reference.makespan(schedule, times)
        assert simulated(schedule, times) == pytest.approx(expected, rel=1e-12)


def test_a_gather_a_reduction_and_an_update_of_one_stage_add_up() -> None:
    times = StageTimes.of([1.0], [2.0], before_first=[0.5], after_last=[0.25], step=[0.125])
    assert simulated(make_schedule("1f1b", 1, 4), times) == 4 * 3.0 + 0.875


@pytest.mark.parametrize("name", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("stages", "n"), [(1, 1), (1, 6), (4, 1), (4, 4), (4, 32), (8, 5)])
def test_equal_stages_take_n_plus_p_minus_1_turns(name: str, stages: int, n: int) -> None:
    times = StageTimes.of([1.0] * stages, [2.0] * stages)
    assert simulated(make_schedule(name, stages, n), times) == (n + stages - 1) * 3.0


@pytest.mark.parametrize(("devices", "n", "chunks"), [(2, 4, 2), (4, 8, 2), (4, 16, 4), (8, 8, 3)])
def test_interleaving_divides_the_bubble_by_the_chunks(devices: int, n: int, chunks: int) -> None:
    """Narayanan et al. 2021: the bubble is (p - 1) / (v m) of the ideal time."""
    stages = devices * chunks
    times = StageTimes.of([1.0] * stages, [2.0] * stages)
    ideal = n * chunks * 3.0
    bubble = simulated(Interleaved(devices, n, chunks), times) - ideal
    assert bubble / ideal == pytest.approx((devices - 1) / (chunks * n))


@pytest.mark.parametrize("seed", range(40))
def test_four_paths_give_the_makespan_of_1f1b_when_stages_are_alike(seed: int) -> None:
    """Stage times that differ by less than 30 %, sends that take no time."""
    rng = random.Random(seed)
    p, n = rng.randint(1, 8), rng.randint(1, 20)
    forward = np.array([rng.uniform(1, 1.25) for _ in range(p)])
    backward = np.array([rng.uniform(2, 2.5) for _ in range(p)])
    both = forward + backward
    lengths = []
    for c in range(p):
        before, after = both[:c].sum(), both[c + 1 :].sum()
        q = min(p - c, n)
        k = n - q + 1
        lengths += [
            before + n * both[c],
            before + after + k * forward[c] + n * backward[c],
            before + after + n * forward[c] + k * backward[c],
        ]
        if n > q:
            lengths.append(before + 2 * after + k * both[c])
    found = simulated(make_schedule("1f1b", p, n), StageTimes.of(forward, backward))
    assert found == pytest.approx(max(lengths), rel=1e-12)


def test_many_pipelines_at_once_equal_single_runs() -> None:
    rng = np.random.default_rng(0)
    for schedule in SCHEDULES:
        shape = (7, schedule.stages)
        parts = [rng.uniform(0, 3, shape) for _ in range(5)]
        together = simulate(
            schedule_graph(schedule), StageTimes.of(parts[0], parts[1], 0.3, *parts[2:])
        )
        for i in range(7):
            alone = [part[i] for part in parts]
            one = simulated(schedule, StageTimes.of(alone[0], alone[1], 0.3, *alone[2:]))
            assert together.makespan[i] == one


@given(
    which=st.integers(0, len(SCHEDULES) - 1),
    seed=st.integers(0, 10_000),
    part=st.sampled_from(
        ["forward", "backward", "before_first", "after_last", "step", "weight", "recompute"]
    ),
    more=st.floats(0, 10),
)
@settings(max_examples=60, deadline=None)
def test_no_work_that_takes_longer_ends_the_iteration_sooner(
    which: int, seed: int, part: str, more: float
) -> None:
    schedule, rng = SCHEDULES[which], random.Random(seed)
    times = times_of(rng, schedule.stages)
    before = simulated(schedule, times)
    getattr(times, part)[0, rng.randrange(schedule.stages)] += more
    assert simulated(schedule, times) >= before
