"""Checkpoint advice: the interval of least loss, as trying all of them and simulating show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver import planner
from solver.checkpoints.advice import advice, best_interval, daly, goodput, whole_iterations
from solver.checkpoints.documents import CheckpointRequest
from solver.errors import BadRequest
from solver.request import PlanRequest

JOB: dict[str, Any] = {
    "model": {"name": "llama-3.2-1b"},
    "cluster": {"device": "RTX4090", "nodes": 2, "devices_per_node": 2},
    "training": {"sequence_length": 2048, "global_batch_size": 8},
    "layout": {
        "tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 1, "micro_batch_size": 1,
        "context_parallel": 1, "sequence_parallel": True, "zero_stage": 1,
    },
}  # fmt: skip


@given(
    iteration=st.floats(1, 30),
    pause=st.floats(1, 100),
    mean=st.floats(500, 20_000),
    restart=st.floats(0, 300),
)
def test_no_other_number_of_iterations_loses_less(
    iteration: float, pause: float, mean: float, restart: float
) -> None:
    chosen = whole_iterations(iteration, pause, mean, restart)
    every = [goodput(n * iteration, pause, mean, restart) for n in range(1, 3 * chosen + 3)]
    assert goodput(chosen * iteration, pause, mean, restart) == pytest.approx(max(every), rel=1e-9)


def test_the_goodput_is_that_of_simulated_failures() -> None:
    random = np.random.default_rng(3)
    interval, pause, mean, restart = 300.0, 20.0, 2000.0, 60.0
    clock, failure, work = 0.0, random.exponential(mean), 0
    for _ in range(60_000):
        done = clock + interval + pause
        while failure < done:
            clock = failure + restart
            failure += random.exponential(mean)
            while failure < clock:  # it fails again while it comes back
                clock = failure + restart
                failure += random.exponential(mean)
            done = clock + interval + pause
        clock, work = done, work + 1
    assert goodput(interval, pause, mean, restart) == pytest.approx(
        work * interval / clock, rel=5e-3
    )


def test_the_approximations_come_near_where_pauses_are_short() -> None:
    best = best_interval(10.0, 10_000.0)
    assert daly(10.0, 10_000.0) == pytest.approx(best, rel=1e-3)
    assert pytest.approx(best, rel=0.05) == (2 * 10.0 * 10_000.0) ** 0.5
    assert daly(500.0, 200.0) == 200.0


def asked(**terms: Any) -> CheckpointRequest:
    job = PlanRequest.model_validate(JOB)
    return CheckpointRequest(job=job, plan=planner.plan(job), terms=terms)  # type: ignore[arg-type]


def test_shares_add_up_and_faster_storage_never_hurts() -> None:
    slow = advice(asked(storage_bytes_per_second=1e9, failures_per_device_hour=0.01))
    fast = advice(asked(storage_bytes_per_second=1e10, failures_per_device_hour=0.01))
    assert slow.goodput + slow.checkpoint_share + slow.failure_share == pytest.approx(1.0)
    assert fast.goodput > slow.goodput
    assert fast.interval_seconds < slow.interval_seconds
    assert slow.failure_seconds == pytest.approx(3600 / 0.04)
    assert slow.state_bytes == pytest.approx(1.24e9 * 14, rel=0.02)


def test_a_plan_without_stages_is_refused() -> None:
    request = asked(storage_bytes_per_second=1e9)
    bare = request.plan.model_copy(update={"layout": None})
    with pytest.raises(BadRequest):
        advice(request.model_copy(update={"plan": bare}))
