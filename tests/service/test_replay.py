"""A replayed plan is the iteration that the plan speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from service.pages.shown import ShownPlan
from service.replay import Kind
from tests.service.pages.plans import long_pipeline, sample_plan

PLANS = {
    "sample": sample_plan(),
    "deep": long_pipeline(16, 40),
    "interleaved": long_pipeline(4, 8, chunks=2),
    "with gather, reduction and step": long_pipeline(
        4, 6, gather_seconds=0.01, reduction_seconds=0.02, step_seconds=0.005
    ),
}


@pytest.fixture(params=PLANS, ids=lambda name: name.replace(" ", "-"))
def shown(request: pytest.FixtureRequest) -> ShownPlan:
    return PLANS[request.param]


def test_the_makespan_is_the_iteration_of_the_plan() -> None:
    plan = PLANS["sample"].plan
    assert plan.breakdown is not None
    assert PLANS["sample"].replay.makespan + plan.breakdown.other == pytest.approx(
        plan.iteration_seconds
    )


def test_every_micro_batch_goes_through_every_stage_once(shown: ShownPlan) -> None:
    bars = shown.replay.bars
    stages = range(len(shown.plan.stages))
    expected = {(stage, batch) for stage in stages for batch in range(shown.replay.micro_batches)}
    for kind in (Kind.FORWARD, Kind.BACKWARD):
        mine = bars.kind == kind
        passes = list(zip(bars.stage[mine].tolist(), bars.micro_batch[mine].tolist(), strict=True))
        assert len(passes) == len(expected)
        assert set(passes) == expected


def test_a_device_does_one_thing_at_a_time(shown: ShownPlan) -> None:
    replay = shown.replay
    for device in range(replay.devices):
        bars = replay.bars.where(replay.bars.device == device)
        if replay.virtual_stages > 1:  # reductions of chunks may run beside each other's passes
            bars = bars.where(bars.micro_batch >= 0)
        order = np.argsort(bars.start)
        assert (bars.start[order][1:] >= bars.end[order][:-1] - 1e-9).all()


def test_nothing_happens_outside_of_the_iteration(shown: ShownPlan) -> None:
    bars = shown.replay.bars
    assert bars.start.min() >= 0
    assert bars.end.max() <= shown.replay.makespan + 1e-9


def test_the_critical_path_has_no_gap_but_sends(shown: ShownPlan) -> None:
    path, send = shown.replay.critical, shown.replay.send_seconds
    gaps = path.start[1:] - path.end[:-1]
    moves = path.device[1:] != path.device[:-1]
    assert np.allclose(gaps[~moves], 0.0, atol=1e-9)
    assert np.allclose(gaps[moves], send, atol=1e-9)


def test_lanes_hold_every_bar_once(shown: ShownPlan) -> None:
    lanes = shown.replay.lanes.values()
    assert sum(len(start) for start, _ in lanes) == len(shown.replay.bars)
    assert all((start[1:] >= start[:-1]).all() for start, _ in lanes)
