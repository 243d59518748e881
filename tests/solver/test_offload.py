"""Activations in host memory, asked of the planner: the optimum, its limits, and the check."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from solver.costs.pipeline import Host, PipelineCosts
from solver.errors import BadRequest, SolverFailed
from solver.plan import Plan, Status
from solver.planner import evaluate, plan
from solver.question import question
from solver.recheck import Verdict, recheck
from solver.request import PlanRequest
from solver.search.regimes import offload_costs
from solver.verify import verify
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs
from tests.solver.requests import profile_request, small

BETTER = (
    7,
    40,
    44,
    48,
    58,
    75,
    91,
    92,
    93,
    96,
    98,
    114,
    125,
    142,
    160,
    163,
    194,
    207,
    209,
    216,
    227,
    235,
    242,
    246,
    254,
    259,
    268,
    271,
    273,
    306,
)
SEEDS = (*range(7), *BETTER)
"""Random requests, and those of them that are better off with host memory."""

LAYER: dict[str, Any] = {
    "state_bytes": 4.0,
    "input_bytes": 1.0,
    "ops": [
        {
            "name": "wide",
            "inputs": ["x"],
            "forward_seconds": 2.0,
            "backward_seconds": 4.0,
            "output_bytes": 6.0,
            "backward_reads": ["x", "wide"],
        }
    ],
}


def asked(offload: str = "on", memory: float = 28.0, rate: float = 1.0, **more: Any) -> PlanRequest:
    """Six layers on two stages, of each of which 2 bytes of 7 pass the link in time."""
    return PlanRequest.model_validate(
        {
            "model": {"profile": {"blocks": {"layer": LAYER}, "sequence": [["layer", 6]]}},
            "cluster": {"memory_bytes": memory, "host_bytes_per_second": rate},
            "training": {"global_batch_size": 6},
            "layout": {"pipeline_parallel": 2},
            "recompute": {"offload": offload},
            **more,
        }
    )


def random_request(seed: int) -> tuple[PipelineCosts, str, int, PlanRequest]:
    """A random profile with a link that moves some of it, and at times little host memory."""
    rng = random.Random(seed)
    stages, schedule = rng.randint(1, 3), rng.choice(["1f1b", "1f1b", "gpipe"])
    costs = random_costs(seed, stages, most_blocks=6)
    host = Host(rng.choice([0.3, 1.0, 3.0]), rng.choice([math.inf, math.inf, 60.0]))
    costs = replace(costs, host=host)
    document = profile_request(costs, schedule, stages)
    document["recompute"] = {"offload": "on"}
    document["cluster"]["host_bytes_per_second"] = host.bytes_per_second
    if math.isfinite(host.memory_bytes):
        document["cluster"]["host_memory_bytes"] = host.memory_bytes
    return costs, schedule, stages, PlanRequest.model_validate(document)


@cache
def optima(seed: int) -> tuple[float, float]:
    """By enumeration: the least makespan with host memory, and without."""
    costs, schedule, stages, _ = random_request(seed)
    return (
        exhaustive.offloading_optimum(costs, schedule, stages),
        exhaustive.optimum(costs, schedule, stages),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_is_the_best_with_and_without_host_memory(seed: int) -> None:
    _, _, _, request = random_request(seed)
    expected, _ = optima(seed)
    found = plan(request)
    if found.status is Status.INFEASIBLE:
        assert math.isinf(expected)
        return
    assert found.iteration_seconds == pytest.approx(expected, rel=1e-4)
    assert found.iteration_seconds >= expected * (1 - 1e-9)
    assert found.lower_bound_seconds <= expected * (1 + 1e-9)


def test_many_of_them_fit_or_are_faster_only_so() -> None:
    assert all(there < here for there, here in map(optima, BETTER))


@pytest.mark.parametrize("memory", [36.0, 45.0, 50.0])
def test_it_is_never_slower_than_without_and_no_faster_than_free_memory(memory: float) -> None:
    off, on = plan(asked("off", memory)), plan(asked("on", memory))
    free = plan(asked("on", 1e9))
    assert on.iteration_seconds >= free.iteration_seconds * (1 - 1e-12)
    if off.status is Status.SUCCEEDED:
        assert on.iteration_seconds <= off.iteration_seconds * (1 + 1e-12)


def test_where_memory_is_ample_nothing_is_offloaded() -> None:
    found = plan(asked("on", 1e9))
    assert found.offload is None
    assert all(not entry.offloaded for stage in found.stages for entry in stage.recompute)


@pytest.fixture(scope="module")
def offloads() -> Plan:
    found = plan(asked("on", 50.0))
    assert found.offload is not None
    return found


def test_the_answer_says_what_waits_at_the_host(offloads: Plan) -> None:
    answer = offloads.offload
    assert answer is not None
    assert answer.block_bytes == {"layer": 2.0}
    assert answer.staging_bytes == 6.0
    assert answer.host_memory_bytes is None
    first = offloads.stages[0]
    away = sum(
        entry.count * (entry.offloaded.get("x", 0.0) + 6.0 * entry.offloaded.get("wide", 0.0))
        for entry in first.recompute
    )
    assert answer.host_peak_bytes == pytest.approx(first.in_flight * away)
    for stage in offloads.stages:
        memory = stage.memory.model_dump()
        assert memory["staging"] == 6.0
        assert sum(memory.values()) == pytest.approx(stage.peak_memory_bytes)


def test_a_device_with_room_for_its_own_offloads_nothing(offloads: Plan) -> None:
    assert any(entry.offloaded for entry in offloads.stages[0].recompute)
    assert all(not entry.offloaded for entry in offloads.stages[-1].recompute)


def test_the_price_list_says_what_host_memory_gains(offloads: Plan) -> None:
    assert offloads.explanation is not None
    first = offloads.explanation.prices[0]
    assert first.restriction == "nothing in host memory"
    assert first.iteration_seconds == pytest.approx(plan(asked("off", 50.0)).iteration_seconds)


def test_its_claims_hold_when_they_are_checked_again(offloads: Plan) -> None:
    assert [claim.verdict for claim in recheck(offloads)] == [Verdict.HOLDS] * 3


@pytest.mark.parametrize(
    ("offloaded", "said"),
    [
        ({"x": 1.0, "wide": 1.0}, "more than its compute hides"),
        ({"narrow": 0.1}, "does not keep"),
        ({"x": 1.5}, "does not keep"),
    ],
)
def test_the_check_refuses_what_cannot_be(
    offloads: Plan, offloaded: dict[str, float], said: str
) -> None:
    request = question(asked("on", 50.0))
    costs = offload_costs(request.some_layout, request.costs(request.some_layout))
    assert costs is not None
    entry = offloads.stages[0].recompute[-1].model_copy(update={"offloaded": offloaded})
    stage = offloads.stages[0].model_copy(
        update={"recompute": [*offloads.stages[0].recompute[:-1], entry]}
    )
    with pytest.raises(SolverFailed, match=said):
        verify(costs, "1f1b", 2, [stage, *offloads.stages[1:]], 1.0, True)


def test_the_check_refuses_offload_in_a_run_that_has_no_room_for_it(offloads: Plan) -> None:
    request = question(asked("on", 50.0))
    costs = request.costs(request.some_layout)
    with pytest.raises(SolverFailed, match="run that does not"):
        verify(costs, "1f1b", 2, offloads.stages, offloads.iteration_seconds or 0.0, True)


def test_an_evaluation_offloads_where_that_is_faster() -> None:
    on, off = evaluate(asked("on", 50.0)), evaluate(asked("off", 50.0))
    assert on.fits
    assert on.offload is not None
    assert on.iteration_seconds < off.iteration_seconds


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"recompute": {"offload": "on", "policy": "full"}}, "recompute.offload"),
        ({"cluster": {"memory_bytes": 28.0}}, "cluster.host_bytes_per_second"),
    ],
)
def test_what_cannot_be_offloaded_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        plan(asked(**more))
    assert refused.value.field == field


def test_a_framework_that_cannot_be_told_is_refused() -> None:
    request = small(recompute={"offload": "on"}, target={"framework": "deepspeed"})
    with pytest.raises(BadRequest) as refused:
        plan(request)
    assert refused.value.field == "recompute.offload"


@pytest.mark.parametrize(
    ("schedule", "virtual_stages"),
    [("gpipe", 1), ("zb-h1", 1), ("zb-v", 2), ("chimera", 1), ("1f1b", 3)],
)
def test_every_schedule_may_offload(schedule: str, virtual_stages: int) -> None:
    """The independent check confirms each plan before it is given."""
    layout = {
        "pipeline_parallel": 2,
        "schedule": schedule,
        "virtual_stages": virtual_stages,
    }
    gained = 0
    for memory in (50.0, 60.0):
        off = plan(asked("off", memory, layout=layout))
        on = plan(asked("on", memory, layout=layout))
        assert on.iteration_seconds is not None
        if off.iteration_seconds is not None:
            assert on.iteration_seconds <= off.iteration_seconds * (1 + 1e-9)
        gained += on.offload is not None
    assert gained


@pytest.mark.parametrize("choice_per", ["stage", "model"])
def test_blocks_that_choose_alike_may_offload(choice_per: str) -> None:
    recompute = {"choice_per": choice_per}
    off = plan(asked(memory=50.0, recompute=recompute))
    on = plan(asked(memory=50.0, recompute=recompute | {"offload": "on"}))
    assert on.offload is not None
    assert on.iteration_seconds is not None
    assert off.iteration_seconds is not None
    assert on.iteration_seconds < off.iteration_seconds


def test_devices_that_differ_offload_what_each_of_them_hides() -> None:
    """The slower one takes longer for a block, so more of it passes the same link."""
    devices = [{"slowdown": 1.0}, {"slowdown": 1.2}]
    cluster = {"memory_bytes": 50.0, "host_bytes_per_second": 1.0, "stage_devices": devices}
    off = plan(asked("off", cluster=cluster))
    on = plan(asked("on", cluster=cluster))
    assert on.offload is not None
    assert on.offload.block_bytes == {"layer": 2.0}
    assert on.offload.staging_bytes == pytest.approx(3 * 2.4)
    assert on.iteration_seconds is not None
    assert off.iteration_seconds is not None
    assert on.iteration_seconds < off.iteration_seconds


def test_no_device_has_more_at_its_host_than_there_is() -> None:
    cluster = {"memory_bytes": 50.0, "host_bytes_per_second": 1.0, "host_memory_bytes": 14.0}
    found = plan(asked(cluster=cluster))
    assert found.offload is not None
    assert found.offload.host_memory_bytes == 14.0
    assert found.offload.host_peak_bytes <= 14.0
    assert max(count for stage in found.stages for _, count in stage.blocks) <= 4


def test_a_model_takes_the_usual_host_of_its_device_unless_told() -> None:
    """An A100's share of a link of 31 GB/s and of a host of 1 TB, as far as they are to be had."""
    request = small(
        cluster={"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 4},
        recompute={"offload": "on"},
    )
    usual = question(request)
    host = usual.costs(usual.some_layout).host
    assert host is not None
    assert host.bytes_per_second == pytest.approx(31e9 / 2 * 0.88)
    assert host.memory_bytes == pytest.approx(128e9 * 0.5)
    told = request.cluster.model_copy(
        update={"host_bytes_per_second": 5e9, "host_memory_bytes": 1e9}
    )
    stated = question(request.model_copy(update={"cluster": told}))
    assert stated.costs(stated.some_layout).host == Host(5e9, 1e9)


def test_a_device_whose_host_is_not_known_is_refused() -> None:
    request = small(
        cluster={"device": "Trainium2", "nodes": 1, "devices_per_node": 4},
        recompute={"offload": "on"},
    )
    with pytest.raises(BadRequest) as refused:
        plan(request)
    assert refused.value.field == "cluster.host_bytes_per_second"


def test_an_export_says_what_it_leaves_out() -> None:
    request = small(
        "llama-3.2-1b",
        cluster={"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 4}
        | {"memory_bytes": 1.4e10},
        training={"sequence_length": 8192, "global_batch_size": 16},
        layout={"tensor_parallel": 1, "pipeline_parallel": 4, "micro_batch_size": 1},
        recompute={"offload": "on"},
    )
    found = plan(request)
    assert found.offload is not None
    (export,) = found.exports
    assert not export.exact
    assert "host memory" in export.notes[0]
