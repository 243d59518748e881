"""The space of layouts that a request leaves open holds legal layouts only, and all of them."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import IllegalLayout
from solver.layouts import Layout
from solver.planner import evaluate
from solver.question import question
from solver.request import PlanRequest
from solver.search.totals import Totals
from tests.solver.search.test_spaces import DENSE, EXPERTS

POOLS: dict[str, Any] = {
    "pools": [
        {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 2},
        {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 2},
    ]
}


def asked_for(
    layout: dict[str, Any], model: dict[str, Any] = DENSE, **other: Any
) -> tuple[PlanRequest, list[Layout]]:
    cluster = {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 4}
    training: dict[str, Any] = {"sequence_length": 2048, "global_batch_size": 8}
    request = PlanRequest.model_validate(
        {
            "model": {"huggingface": model},
            "cluster": other.get("cluster", cluster),
            "training": training | other.get("training", {}),
            "layout": layout,
        }
    )
    families = question(request, to_plan=True).families
    return request, [
        layout
        for family in families
        for position in range(len(family))
        for layout in family.variants(position)
    ]


def test_exchange_beside_products_is_planned_with_chunks_or_without_a_pipeline() -> None:
    layout = {"virtual_stages": [1, 2], "expert_parallel": [1, 2], "micro_batch_size": 1}
    _, found = asked_for(layout, EXPERTS, training={"overlap_expert_parallel": True})
    exchanging = [one for one in found if one.expert_parallel == 2]
    shapes = {(one.pipeline_parallel > 1, one.virtual_stages > 1) for one in exchanging}
    assert shapes == {(False, False), (True, True)}
    assert any(one.pipeline_parallel > 1 and one.virtual_stages == 1 for one in found)


def test_a_v_shaped_schedule_has_a_pipeline() -> None:
    _, found = asked_for({"schedule": "zb-v"})
    assert min(one.pipeline_parallel for one in found) == 2


@pytest.mark.parametrize("schedules", [["chimera", "gpipe"], ["zb-v", "gpipe"]])
def test_one_schedule_of_several_runs_without_a_pipeline(schedules: list[str]) -> None:
    _, found = asked_for({"schedule": schedules})
    assert {one.schedule for one in found if one.pipeline_parallel == 1} == {"gpipe"}


def test_stages_that_share_devices_stand_in_one_pool() -> None:
    _, found = asked_for({"virtual_stages": [1, 2], "tensor_parallel": 1}, cluster=POOLS)
    chunked = [one for one in found if one.virtual_stages > 1]
    assert chunked
    assert all(len(one.stage_pools) == 1 for one in chunked)
    assert any(len(one.stage_pools) == 2 for one in found)


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        ({"virtual_stages": 2}, "virtual_stages"),
        ({"schedule": "zb-v"}, "schedule"),
        ({"schedule": "chimera"}, "schedule"),
    ],
)
def test_stages_that_share_devices_of_two_pools_are_refused(
    layout: dict[str, Any], field: str
) -> None:
    alone = {"pipeline_parallel": 4, "tensor_parallel": 1, **layout}
    with pytest.raises(IllegalLayout) as refused:
        asked_for(alone, {**DENSE, "num_hidden_layers": 8}, cluster=POOLS)
    assert refused.value.field == f"layout.{field}"


def test_no_member_has_more_room_than_its_family_says() -> None:
    """DeepSpeed flattens gradients in buffers, smaller ones in a longer pipeline."""
    request, _ = asked_for({"zero_stage": 1}, training={"attention": "unfused"})
    asked = question(request, to_plan=True)
    smaller = 0
    for family in asked.families:
        exemplar = asked.costs(family.exemplar)
        most = Totals.of(exemplar).capacity[0]
        for position in range(len(family)):
            costs = asked.costs(family.member(position))
            assert costs.capacity_bytes - costs.reserved_bytes <= most * (1 + 1e-12)
            smaller += costs.reserved_bytes < exemplar.reserved_bytes
    assert smaller


@pytest.mark.parametrize("layout", [{"virtual_stages": 2}, {"schedule": "chimera"}])
def test_every_stage_that_shares_a_device_is_told_its_pool(layout: dict[str, Any]) -> None:
    alone = {"pipeline_parallel": 2, "data_parallel": 1, "tensor_parallel": 1, **layout}
    request = PlanRequest.model_validate(
        {
            "model": {"huggingface": DENSE},
            "cluster": POOLS,
            "training": {"sequence_length": 2048, "global_batch_size": 8},
            "layout": {**alone, "micro_batch_size": 1, "stage_pools": [[1, 2]]},
            "recompute": {"policy": "none"},
        }
    )
    found = evaluate(request)
    assert [stage.device for stage in found.stages] == ["H100-SXM5-80GB"] * 4


@pytest.mark.parametrize("data", [1, None])
def test_a_plan_refuses_the_rank_order_that_an_evaluation_refuses(data: int | None) -> None:
    layout: dict[str, Any] = {
        "tensor_parallel": 2,
        "pipeline_parallel": 2,
        "expert_parallel": 1,
        "expert_tensor_parallel": 1,
        "data_parallel": data,
        "rank_order": "tp-cp-ep-pp-dp",
    }
    with pytest.raises(IllegalLayout) as caught:
        asked_for(layout, EXPERTS)
    assert caught.value.field == "layout.rank_order"
    _, found = asked_for(layout | {"rank_order": None}, EXPERTS)
    assert {one.rank_order for one in found} == {"tp-cp-ep-dp-pp"}
