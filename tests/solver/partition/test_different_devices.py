"""Pipelines whose devices differ in memory and speed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.costs.profile import on_device
from solver.errors import BadRequest
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import solve_partition
from solver.planner import plan
from solver.request import Recompute
from solver.schedules import make_schedule
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs
from tests.solver.requests import HAND, hand


def on_random_devices(seed: int, costs: PipelineCosts, stages: int) -> PipelineCosts:
    """Two kinds of device in random order."""
    rng = random.Random(seed)
    kinds = [(costs.capacity_bytes, 1.0), (costs.capacity_bytes * rng.uniform(0.6, 2.0), 1.7)]
    devices = tuple(on_device(costs, *rng.choice(kinds)) for _ in range(stages))
    return replace(costs, devices=devices)


@pytest.mark.parametrize("seed", range(60))
def test_optimum_and_bound_equal_exhaustive_search(seed: int) -> None:
    stages = 2 + seed % 3
    costs = on_random_devices(seed, random_costs(seed, stages), stages)
    name = ("1f1b", "gpipe")[seed % 2]
    schedule = make_schedule(name, stages, costs.micro_batches)
    found = solve_partition(costs, policy_menu(costs, Recompute()), schedule)
    expected = exhaustive.optimum(costs, name, stages)
    if expected == float("inf"):
        assert isinstance(found, Infeasible)
        assert found.missing_bytes > 0
        return
    assert isinstance(found, Partition)
    assert found.makespan == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.lower_bound == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_equal_devices_told_apart_change_nothing() -> None:
    alike = plan(hand(60.0))
    told = plan(
        hand(60.0, cluster={"memory_bytes": 60.0, "stage_devices": [{}, {"memory_bytes": 60.0}]})
    )
    assert told.iteration_seconds == alike.iteration_seconds
    assert [stage.blocks for stage in told.stages] == [stage.blocks for stage in alike.stages]


def test_the_slower_device_holds_fewer_layers() -> None:
    slow_first = {"memory_bytes": 1e6, "stage_devices": [{"slowdown": 3.0}, {}]}
    found = plan(hand(cluster=slow_first))
    assert [stage.blocks for stage in found.stages] == [[("layer", 1)], [("layer", 3)]]
    assert found.stages[0].forward_seconds == 9.0
    assert found.gap == 0.0


def test_a_stage_that_does_not_fit_its_own_device_is_named() -> None:
    cluster = {"memory_bytes": 1e6, "stage_devices": [{}, {"memory_bytes": 5.0}]}
    found = plan(hand(cluster=cluster))
    assert found.status == "infeasible"
    assert found.shortfall is not None
    assert found.shortfall.stage == 1
    assert found.shortfall.memory_limit_bytes == 5.0


def test_baselines_are_judged_on_the_same_devices() -> None:
    cluster = {"memory_bytes": 1e6, "stage_devices": [{"slowdown": 3.0}, {}]}
    found = plan(hand(cluster=cluster))
    assert found.baselines["none"].iteration_seconds is not None
    assert found.iteration_seconds is not None
    assert found.baselines["none"].iteration_seconds > found.iteration_seconds
    assert "adapipe" not in found.baselines


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        ({"pipeline_parallel": 3}, "cluster.stage_devices"),
        ({}, "cluster.stage_devices"),
        ({"pipeline_parallel": 2, "virtual_stages": 2}, "layout.virtual_stages"),
    ],
)
def test_devices_that_do_not_match_the_stages_are_refused(
    layout: dict[str, int], field: str
) -> None:
    asked = hand(cluster={"memory_bytes": 1e6, "stage_devices": [{}, {}]}, layout=layout)
    with pytest.raises(BadRequest) as refused:
        plan(asked)
    assert refused.value.field == field


def test_a_model_that_is_no_profile_takes_no_stage_devices() -> None:
    cluster = {"device": "RTX4090", "nodes": 1, "devices_per_node": 4, "stage_devices": [{}]}
    with pytest.raises(BadRequest) as refused:
        plan(hand(model={"name": "llama-3.2-1b"}, cluster=cluster, training=HAND["training"]))
    assert refused.value.field == "cluster.stage_devices"
