"""Stages that share devices and recompute in stalls, against every plan in every timing."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from benchmarks.gpt_3 import gpt_3
from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import menu_on, partition_problem
from solver.partition.stalling_shared import StallingProblem
from solver.request import Overlap, Recompute
from solver.schedules import make_schedule, recomputing_ahead
from tests.solver.every_plan import Pipeline, optimum
from tests.solver.random_costs import random_costs

SHAPES: tuple[tuple[Pipeline, int], ...] = (
    (Pipeline("1f1b", 2, 2, stalls=True), 4),
    (Pipeline("1f1b", 2, 2, 3, stalls=True), 7),
    (Pipeline("1f1b", 2, 3, stalls=True), 4),
    (Pipeline("1f1b", 3, 2, stalls=True), 6),
    (Pipeline("chimera", 2, stalls=True), 4),
)


def profile(seed: int) -> tuple[Pipeline, PipelineCosts]:
    """A random pipeline whose stages share devices, its memory from too little to ample."""
    rng = random.Random(seed)
    pipeline, micro_batches = rng.choice(SHAPES)
    stages = pipeline.depth
    costs = random_costs(
        90_000 + seed, stages, most_blocks=stages + 1, most_ops=2, micro_batches=micro_batches
    )
    roomier = rng.choice([1.0, 1.5, 1.5, 2.0])
    return pipeline, replace(costs, capacity_bytes=costs.capacity_bytes * roomier)


def solved(costs: PipelineCosts, pipeline: Pipeline, overlap: Overlap) -> Partition | None:
    """The partition's answer, None where nothing fits."""
    schedule = make_schedule(
        pipeline.schedule,
        pipeline.devices,
        costs.micro_batches,
        pipeline.chunks,
        pipeline.group,
    )
    if overlap is Overlap.STALLS:
        schedule = recomputing_ahead(schedule)
    menu = menu_on(policy_menu(costs, Recompute(overlap=overlap)), schedule)
    found = partition_problem(costs, menu, schedule).solve()
    return found if isinstance(found, Partition) else None


@pytest.mark.parametrize("seed", range(40))
def test_optimum_and_bound_equal_exhaustive_search(seed: int) -> None:
    pipeline, costs = profile(seed)
    expected = optimum(costs, pipeline)
    found = solved(costs, pipeline, Overlap.STALLS)
    if found is None:
        assert math.isinf(expected)
        return
    assert found.makespan == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found.lower_bound <= expected * (1 + 1e-9)
    assert found.lower_bound >= expected * (1 - 1e-6)


def large(memory: float) -> tuple[PipelineCosts, Pipeline]:
    """12 layers in two chunks each of two devices: more than the program decides."""
    costs = gpt_3(12, 4, 1e12)
    states = sum(costs.blocks[kind].states.total for kind in costs.sequence)
    return replace(costs, capacity_bytes=states / 2 * memory), Pipeline("1f1b", 2, 2, stalls=True)


def test_large_pipelines_gain_by_stalls_and_their_bound_holds_for_both() -> None:
    costs, pipeline = large(1.1)
    off = solved(costs, pipeline, Overlap.OFF)
    stalls = solved(costs, pipeline, Overlap.STALLS)
    assert off is not None
    assert stalls is not None
    assert stalls.lower_bound <= stalls.makespan < off.makespan
    assert any(stalls.ahead)


def test_the_bound_of_a_large_search_is_below_every_plan_of_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What large cases are bounded by, asked of cases that can be gone through."""
    monkeypatch.setattr(StallingProblem, "_is_small", lambda _: False)
    for seed in range(100, 112):
        pipeline, costs = profile(seed)
        expected = optimum(costs, pipeline)
        found = solved(costs, pipeline, Overlap.STALLS)
        if found is not None:
            assert found.lower_bound <= expected * (1 + 1e-9)
            assert found.makespan >= expected * (1 - 1e-9)
        else:
            assert math.isinf(expected)


def test_infeasible_is_the_same_as_on_demand() -> None:
    costs, _ = large(1.0)
    schedule = recomputing_ahead(make_schedule("1f1b", 2, 4, 2))
    tight = replace(costs, capacity_bytes=costs.capacity_bytes / 2)
    menu = menu_on(policy_menu(tight, Recompute(overlap=Overlap.STALLS)), schedule)
    assert isinstance(partition_problem(tight, menu, schedule).solve(), Infeasible)
