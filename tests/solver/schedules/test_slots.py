"""Makespans by slots against the simulator."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.schedules import (
    Schedule,
    StageTimes,
    make_schedule,
    makespans,
    recomputing_ahead,
    schedule_graph,
    simulate,
)
from tests.solver.schedules.reference import SCHEDULES, times_of


@given(
    name=st.sampled_from(["1f1b", "zb-h1", "ahead"]),
    stages=st.integers(1, 7),
    micro_batches=st.integers(1, 12),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150, deadline=None)
def test_slots_give_the_simulated_makespan(
    name: str, stages: int, micro_batches: int, seed: int
) -> None:
    schedule = make_schedule("zb-h1" if name == "zb-h1" else "1f1b", stages, micro_batches)
    if name == "ahead":
        schedule = recomputing_ahead(schedule)
    times = times_of(random.Random(seed), stages)
    expected = simulate(schedule_graph(schedule), times).makespan
    assert makespans(schedule, times) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.key()))
def test_many_candidates_are_those_of_each(schedule: Schedule) -> None:
    rng = random.Random(0)
    each = [times_of(rng, schedule.stages) for _ in range(3)]
    parts = ("forward", "backward", "before_first", "after_last", "step", "weight", "recompute")
    together = replace(
        each[0], **{part: np.concatenate([getattr(one, part) for one in each]) for part in parts}
    )
    alone = [float(makespans(schedule, replace(one, send=together.send))[0]) for one in each]
    assert makespans(schedule, together) == pytest.approx(alone, rel=1e-12)


def test_a_stage_that_cannot_be_makes_its_pipeline_infinite() -> None:
    times = StageTimes.of([[1.0, 1.0], [1.0, 1.0]], [[2.0, np.inf], [2.0, 2.0]])
    found = makespans(make_schedule("1f1b", 2, 4), times)
    assert np.isinf(found[0])
    assert found[1] == 15.0
