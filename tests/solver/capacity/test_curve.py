"""Capacity curves: every point is a plan's, and more nodes are never worth less."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from solver import planner
from solver.capacity import planners
from solver.capacity.curve import capacity
from solver.capacity.documents import CapacityAnswer, CapacityRequest, Curve
from solver.capacity.goodput import fit, step_seconds
from solver.capacity.planners import APART, Limits, Planners
from solver.capacity.sizes import Size, at_size, planned
from solver.errors import BadRequest
from solver.identity import plan_id
from solver.request import PlanRequest

JOB: dict[str, Any] = {
    "model": {"name": "llama-3.2-1b"},
    "cluster": {"device": "RTX4090", "devices_per_node": 4},
    "training": {"sequence_length": 4096, "global_batch_size": 24},
    "layout": {"micro_batch_size": 1, "tensor_parallel": 1},
}


@cache
def answered(**fields: Any) -> CapacityAnswer:
    return capacity(_asked(**fields), processes=1)


def _asked(maximum: int = 7, **fields: Any) -> CapacityRequest:
    return CapacityRequest.model_validate(
        {
            "job": JOB,
            "nodes": {"maximum": maximum},
            "relative_gap": 1e-4,
            "seconds_per_size": 60,
            **fields,
        }
    )


def curve() -> Curve:
    return answered().curves[0]


def test_every_useful_point_is_what_planning_that_size_gives() -> None:
    assert len(curve().useful_sizes) >= 4
    for point in curve().points:
        if point.useful:
            sized = at_size(PlanRequest.model_validate(JOB), point.nodes)
            found = planner.found_by(sized).found
            assert found is not None
            assert point.iteration_seconds == pytest.approx(found.partition.makespan, rel=2e-4)
            assert point.plan_id == plan_id(sized)


def test_a_size_that_is_not_faster_than_the_ceiling_gives_no_plan() -> None:
    job = PlanRequest.model_validate(JOB)
    free = planned(job, 3, math.inf, 1e-4, 600.0)
    assert free.seconds is not None
    assert planned(job, 3, 0.9 * free.seconds, 1e-4, 600.0).seconds is None
    again = planned(job, 3, 1.1 * free.seconds, 1e-4, 600.0)
    assert again.seconds == pytest.approx(free.seconds, rel=2e-4)


def test_what_a_size_must_beat_does_not_depend_on_who_is_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ceilings = {}

    def planned(_: PlanRequest, nodes: int, ceiling: float, *__: object) -> Size:
        ceilings[nodes] = ceiling
        return Size(nodes, seconds=1.0 / nodes)

    monkeypatch.setattr(planners, "planned", planned)
    job = PlanRequest.model_validate(JOB)
    with Planners(8, processes=1) as one:
        one.plan(lambda _: job, range(1, 9), Limits(0.0, None, math.inf), lambda: None)
    few = dict.fromkeys(range(1, APART + 1), math.inf)
    assert ceilings == few | {nodes: 1.0 / (nodes - APART) for nodes in range(APART + 1, 9)}


def test_layouts_that_a_smaller_size_has_room_for_are_its_own() -> None:
    job = PlanRequest.model_validate(JOB)
    alone, above = (planned(job, 3, math.inf, 1e-4, 30.0, smaller) for smaller in (0, 2))
    assert alone.seconds is not None
    assert above.seconds is not None
    two = planned(job, 2, math.inf, 1e-4, 600.0)
    assert two.seconds is not None
    assert min(above.seconds, two.seconds) == pytest.approx(alone.seconds, rel=2e-4)


def test_more_nodes_are_never_worth_less() -> None:
    seconds = [p.iteration_seconds for p in curve().points if p.iteration_seconds is not None]
    assert seconds == sorted(seconds, reverse=True)


def test_a_size_that_wastes_ranks_says_how_many_nodes_to_use() -> None:
    wasted = [point for point in curve().points if point.feasible and not point.useful]
    assert wasted  # 24 sequences cannot be shared by 20 or 28 replicas
    for point in wasted:
        assert point.uses_nodes in curve().useful_sizes
        assert point.uses_nodes is not None
        assert point.uses_nodes < point.nodes


def test_gains_add_up_to_the_throughput() -> None:
    total, before = 0.0, 0
    for point in curve().points:
        if point.useful:
            assert point.gain_per_node is not None
            total += point.gain_per_node * (point.nodes - before)
            before = point.nodes
            assert point.samples_per_second == pytest.approx(total)


def test_too_small_allocations_are_told_apart() -> None:
    job = {**JOB, "layout": {"tensor_parallel": 4, "pipeline_parallel": 2, "micro_batch_size": 1}}
    found = capacity(_asked(maximum=3, job=job), processes=1).curves[0]
    assert found.smallest_feasible == 2
    assert [point.feasible for point in found.points] == [False, True, True]


def test_a_fabric_gives_a_curve_on_one_leaf_and_one_over_several() -> None:
    spread = {"nodes_per_leaf": 2, "oversubscription": 4.0}
    whole = {**JOB, "cluster": {**JOB["cluster"], "devices_per_node": 8}}
    one, several = capacity(_asked(maximum=4, job=whole, spread=spread), processes=1).curves
    assert [point.nodes for point in one.points] == [1, 2]
    assert [point.nodes for point in several.points] == [2, 3, 4]
    assert one.points[1].iteration_seconds is not None
    assert several.points[0].iteration_seconds is not None
    assert one.points[1].iteration_seconds <= several.points[0].iteration_seconds
    leafs = {2: 1, 3: 2, 4: 2}  # as few as have room, but several
    for point in several.points:
        if point.useful:
            switches = [{"nodes": leafs[point.nodes], "oversubscription": 4.0}]
            job = {**whole, "cluster": {**whole["cluster"], "switches": switches}}
            alone = capacity(_asked(maximum=point.nodes, job=job), processes=1).curves[0]
            assert alone.points[-1].iteration_seconds is not None
            assert point.iteration_seconds == pytest.approx(
                alone.points[-1].iteration_seconds, rel=2e-4
            )


def test_a_cluster_that_cannot_be_read_is_named_from_the_whole_request_on() -> None:
    pools = [{"device": "RTX4090", "nodes": 1, "devices_per_node": 4}] * 2
    job = {**JOB, "cluster": {"pools": pools}}
    with pytest.raises(BadRequest) as raised:
        capacity(CapacityRequest.model_validate({"job": job, "nodes": {"maximum": 2}}), processes=1)
    assert raised.value.field == "job.cluster.pools"


def test_a_job_that_no_size_can_plan_is_refused() -> None:
    job = {**JOB, "layout": {"tensor_parallel": 3}}
    with pytest.raises(BadRequest) as raised:
        capacity(_asked(maximum=2, job=job))
    assert raised.value.field == "job.layout.tensor_parallel"


def test_the_goodput_model_is_found_again_from_its_own_points() -> None:
    nodes = np.array([1.0, 2, 3, 4, 6, 8, 12, 16, 24, 32])
    truth = np.array([0.1, 2.0, 0.3, 0.002, 0.1, 0.01, 2.0])
    seconds = step_seconds(truth, nodes, nodes * 8, 512.0)
    found = fit(nodes, nodes * 8, seconds, 512.0)
    assert found.relative_error < 5e-3


def test_the_curve_is_described_by_its_goodput_parameters() -> None:
    goodput = curve().goodput
    assert goodput is not None
    assert 1 <= goodput.gamma <= 10
    assert goodput.relative_error < 0.1
