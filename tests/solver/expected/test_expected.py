"""Expectations: the figures of the plan and of its links; and what measurements say."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from solver import planner
from solver.calibrate.measured import MeasuredRun
from solver.calibrate.predict import case
from solver.cluster.collectives import Group, all_gather
from solver.errors import BadRequest
from solver.expected.documents import (
    ExpectedAnswer,
    ExpectedRequest,
    ObservationAnswer,
    Observations,
    ObservedRequest,
)
from solver.expected.expected import expected
from solver.expected.observed import observed
from solver.plan import Plan
from solver.question import only_layout, question
from solver.request import PlanRequest

JOB = PlanRequest.model_validate(
    {
        "model": {"name": "llama-3.2-1b"},
        "cluster": {"device": "H100-SXM5-80GB", "nodes": 2, "devices_per_node": 8},
        "training": {"sequence_length": 4096, "global_batch_size": 32},
        "layout": {
            "tensor_parallel": 2,
            "pipeline_parallel": 4,
            "data_parallel": 2,
            "context_parallel": 1,
            "micro_batch_size": 1,
            "sequence_parallel": True,
            "zero_stage": 1,
        },
    }
)


@cache
def plan() -> Plan:
    return planner.plan(JOB)


@cache
def answer() -> ExpectedAnswer:
    return expected(ExpectedRequest(job=JOB, plan=plan()))


def judged(**measured: Any) -> ObservationAnswer:
    whole = Observations.model_validate(measured)
    return observed(ObservedRequest(job=JOB, plan=plan(), measured=whole))


def test_times_and_memory_are_the_plans() -> None:
    found = answer()
    assert found.iteration_seconds == plan().iteration_seconds
    assert found.iteration_band == pytest.approx(plan().iteration_seconds_band)
    for stage, planned in zip(found.stages, plan().stages, strict=True):
        assert stage.forward_seconds == planned.forward_seconds
        assert stage.backward_band[0] < planned.backward_seconds < stage.backward_band[1]
        assert stage.allocated_peak_bytes == planned.allocated_peak_bytes
    assert [stage.ranks for stage in found.stages] == [(0, 3), (4, 7), (8, 11), (12, 15)]


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    for one in answer().collectives:
        share = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "all-to-all": 1}
        factor = share.get(one.kind, 0) * (one.devices - 1) / one.devices or 1.0
        assert one.bus_bytes_per_second == pytest.approx(factor * one.size_bytes / one.seconds)


def test_collectives_are_those_that_the_blocks_wait_for() -> None:
    layout = only_layout(question(JOB))
    costs = question(JOB).costs(layout)
    by_name = {one.name: one for one in answer().collectives}
    reduce = next(op for op in costs.blocks[0].ops if op.name == "embedding_reduce")
    # Its forward is a reduce-scatter of the rows and nothing hides it.
    scatter = by_name["tensor_parallel.reduce-scatter"]
    assert scatter.seconds <= reduce.forward_seconds * (1 + 1e-9)
    assert by_name["pipeline_parallel.send"].seconds == pytest.approx(costs.send_seconds)
    first = [one for one in answer().collectives if one.stage == 0]
    held = [costs.blocks[kind] for kind in costs.sequence[: sum(n for _, n in plan().stages[0].blocks)]]  # fmt: skip  # noqa: E501
    assert {one.kind: one.seconds for one in first} == {
        "reduce-scatter": pytest.approx(sum(block.gradient_seconds for block in held)),
        "all-gather": pytest.approx(sum(block.gather_seconds for block in held)),
    }


def test_a_group_of_one_sends_nothing() -> None:
    assert all(one.devices > 1 for one in answer().collectives)
    assert all_gather(1e9, Group(1, 1), None) == 0.0  # type: ignore[arg-type]


def stages(slow: tuple[int, int], by: float, all_by: float = 1.0) -> list[dict[str, Any]]:
    return [
        {
            "index": stage.index,
            "replica": replica,
            "forward_seconds": stage.forward_seconds * all_by,
            "backward_seconds": stage.backward_seconds
            * (by if (stage.index, replica) == slow else all_by),
        }
        for stage in plan().stages
        for replica in range(2)
    ]


def test_a_slow_device_stands_out_from_its_like() -> None:
    found = judged(stages=stages((2, 1), 1.2))
    apart = [one for one in found.judged if one.stands_out]
    assert [(one.stage, one.replica, one.what) for one in apart] == [(2, 1, "backward")]
    assert found.deviations[0].startswith("stage 2, replica 1: the backward pass takes 1.2 times")


def test_a_model_that_is_off_everywhere_is_a_matter_of_calibration() -> None:
    found = judged(stages=stages((0, 0), 1.4, 1.4))
    assert not any(one.stands_out for one in found.judged)
    assert all(one.outside_band for one in found.judged)
    assert any("calibration" in words for words in found.deviations)


def test_a_slow_link_is_named() -> None:
    name = "tensor_parallel.all-gather"
    usual = next(one for one in answer().collectives if one.name == name).bus_bytes_per_second
    found = judged(
        collectives=[
            {"name": name, "stage": stage, "bus_bytes_per_second": usual / (2 if stage == 1 else 1)}
            for stage in range(4)
        ]
    )
    assert found.deviations == [
        f"the links of stage 1: {name} takes 2 times what is expected, 2 times its like"
    ]


def test_what_is_as_expected_is_no_news() -> None:
    found = judged(
        iteration_seconds=plan().iteration_seconds,
        stages=[{"index": 0, "peak_memory_bytes": plan().stages[0].allocated_peak_bytes}],
    )
    assert found.deviations == []


def test_a_measured_iteration_is_a_run_for_calibrations() -> None:
    assert plan().iteration_seconds is not None
    found = judged(iteration_seconds=1.1 * plan().iteration_seconds)
    run = MeasuredRun.model_validate(found.run)
    assert case("a", "b", run.request, run.measured.iteration_seconds).layout.tensor_parallel == 2
    usual = planner.evaluate(run.request).iteration_seconds
    assert run.measured.iteration_seconds == pytest.approx(1.1 * usual)


@pytest.mark.parametrize(
    ("measured", "field"),
    [
        ({"stages": [{"index": 7, "forward_seconds": 1.0}]}, "stages[0].index"),
        ({"collectives": [{"name": "x", "seconds": 1.0}]}, "collectives[0].name"),
        ({"collectives": [{"name": "data_parallel.all-gather", "seconds": 1.0}]},
         "collectives[0].name"),
    ],
)  # fmt: skip
def test_measurements_of_what_the_plan_has_not_are_refused(
    measured: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        judged(**measured)
    assert raised.value.field == field


def test_a_plan_without_stages_is_refused() -> None:
    with pytest.raises(BadRequest):
        expected(
            ExpectedRequest.model_construct(job=JOB, plan=plan().model_copy(update={"stages": []}))
        )
