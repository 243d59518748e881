"""What others would choose, on the same costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.baselines.side_by_side import baselines
from solver.costs.pipeline import Block, Module, Op, PipelineCosts, States
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.request import Recompute
from solver.schedules import OneForwardOneBackward
from tests.solver.partition.samples import pipeline, solved

LAYER = Block(
    name="layer",
    ops=(
        Op("scores", ("x",), 1.0, 2.0, 4.0, backward_reads=("x", "scores")),
        Op("out", ("scores",), 2.0, 3.0, 1.0, backward_reads=("scores", "out")),
    ),
    input_bytes=1.0,
    states=States(weights=5.0),
    modules=(Module("core_attn", ("scores",)),),
)
COSTS = PipelineCosts((LAYER,), (0,) * 4, micro_batches=3, capacity_bytes=25.0)
SCHEDULE = OneForwardOneBackward(2, 3)


def test_policies_by_hand() -> None:
    """Two layers a stage: 4 turns of F + B = 6 + 10, and 6 or 2 more where recomputed."""
    found = baselines(COSTS, SCHEDULE, iteration_seconds=64.0)
    assert found["none"].iteration_seconds == 4 * 16.0
    assert found["full"].iteration_seconds == 4 * 22.0
    assert found["selective"].iteration_seconds == 4 * 18.0
    assert found["none"].peak_memory_bytes == 10 + 2 * 2 * 6.0
    assert found["full"].peak_memory_bytes == 10 + 2 * 2 * 1.0 + 5.0
    assert found["selective"].peak_memory_bytes == 10 + 2 * 2 * 2.0 + 4.0
    assert not found["none"].fits
    assert all(found[name].fits for name in ("full", "selective", "even-split"))
    assert found["full"].speed_up == 88.0 / 64.0


def test_the_even_split_recomputes_as_little_as_its_memory_allows() -> None:
    found = baselines(replace(COSTS, capacity_bytes=30.0), SCHEDULE, iteration_seconds=64.0)
    even = found["even-split"]
    assert even.fits
    assert even.iteration_seconds is not None
    assert 64.0 < even.iteration_seconds < 72.0
    assert even.peak_memory_bytes is not None
    assert even.peak_memory_bytes <= 30.0


def test_an_even_split_that_cannot_fit_has_no_time() -> None:
    found = baselines(replace(COSTS, capacity_bytes=10.0), SCHEDULE, iteration_seconds=64.0)
    assert found["even-split"].iteration_seconds is None
    assert not found["even-split"].fits
    assert found["full"].iteration_seconds == 88.0
    assert not found["full"].fits


@pytest.mark.parametrize("seed", range(60))
def test_no_baseline_that_fits_beats_the_plan(seed: int) -> None:
    costs, schedule = pipeline(seed)
    best = solved(costs, schedule)
    if best is None:
        return
    for name, baseline in baselines(costs, schedule, best.makespan).items():
        if baseline.fits and name != "chimera":  # that runs another schedule
            assert baseline.iteration_seconds is not None
            assert best.makespan <= baseline.iteration_seconds * (1 + 1e-9)
            assert baseline.speed_up is None or baseline.speed_up >= 1 - 1e-9


def test_baselines_are_judged_on_the_costs_of_the_plan() -> None:
    menu = policy_menu(COSTS, Recompute())
    plan = PartitionProblem(COSTS, menu, SCHEDULE).solve()
    assert isinstance(plan, Partition)
    found = baselines(COSTS, SCHEDULE, plan.makespan)
    assert found["even-split"].iteration_seconds == pytest.approx(plan.makespan)
