"""A finished plan checked again from its request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.errors import BadRequest
from solver.plan import Plan
from solver.planner import plan
from solver.recheck import Verdict, recheck
from solver.request import PlanRequest
from tests.solver.random_costs import random_costs
from tests.solver.requests import hand, profile_request

TIME, GAP, BOUND = range(3)


def changed(found: Plan, **fields: Any) -> Plan:
    """The plan with other claims."""
    return found.model_copy(update=fields)


def verdicts(found: Plan) -> list[Verdict]:
    return [claim.verdict for claim in recheck(found)]


@pytest.mark.parametrize("seed", range(42))
def test_plans_of_random_profiles_hold(seed: int) -> None:
    stages, name = 2 + seed // 3 % 3, ("1f1b", "gpipe", "zb-h1")[seed % 3]
    costs = random_costs(seed, stages, late_weights=name == "zb-h1")
    document = profile_request(costs, name, stages)
    found = plan(PlanRequest.model_validate(document))
    if found.status != "succeeded":
        with pytest.raises(BadRequest):
            recheck(found)
        return
    assert verdicts(found) == [Verdict.HOLDS] * 3


def test_a_time_that_nobody_reaches_is_found_out() -> None:
    found = plan(hand(33.0))
    assert found.iteration_seconds is not None
    seconds = found.iteration_seconds - 1.0
    lied = changed(found, iteration_seconds=seconds, lower_bound_seconds=seconds)
    assert verdicts(lied)[TIME] is Verdict.FALSE


def test_a_bound_above_the_optimum_is_found_out() -> None:
    found = plan(hand(33.0, recompute={"policy": "full"}))
    free = plan(hand(33.0))
    assert found.request is not None
    assert found.iteration_seconds is not None
    assert free.iteration_seconds is not None
    assert found.iteration_seconds > free.iteration_seconds
    request = {**found.request, "recompute": {"policy": "optimal"}}
    assert verdicts(changed(found, request=request)) == [
        Verdict.HOLDS,
        Verdict.HOLDS,
        Verdict.FALSE,
    ]


def test_a_bound_above_the_optimum_of_zb_h1_is_found_out() -> None:
    costs = random_costs(5, 3, late_weights=True)
    found = plan(PlanRequest.model_validate(profile_request(costs, "zb-h1", 3)))
    assert found.iteration_seconds is not None
    more = found.iteration_seconds * 1.01
    lied = changed(found, iteration_seconds=more, lower_bound_seconds=more)
    assert verdicts(lied)[BOUND] is Verdict.FALSE


def test_a_gap_that_the_figures_do_not_give_is_found_out() -> None:
    found = plan(hand(33.0))
    assert verdicts(changed(found, gap=0.5))[GAP] is Verdict.FALSE


def test_a_stage_that_needs_more_than_it_says_is_found_out() -> None:
    found = plan(hand(33.0))
    first = found.stages[0].model_copy(update={"peak_memory_bytes": 1.0})
    assert verdicts(changed(found, stages=[first, *found.stages[1:]]))[TIME] is Verdict.FALSE


SHARED = (("1f1b", 2, 2), ("zb-v", 2, 2), ("chimera", 2, 1), ("1f1b", 2, 3))
"""Schedules with several stages per device, their devices and chunks."""


def shared_plan(
    seed: int, name: str, devices: int, chunks: int, overlap: str | None = None
) -> Plan:
    """The plan of a random profile whose devices hold several stages."""
    costs = random_costs(seed, devices * chunks, late_weights=name == "zb-v")
    even = replace(costs, micro_batches=max(2 * (costs.micro_batches // 2), 2))
    document = profile_request(even, name, devices)
    document["layout"]["virtual_stages"] = chunks
    if overlap is not None:
        document["recompute"] = {"overlap": overlap}
    return plan(PlanRequest.model_validate(document))


@pytest.mark.parametrize("seed", range(12))
def test_plans_with_several_stages_per_device_hold(seed: int) -> None:
    found = shared_plan(seed, *SHARED[seed % 4])
    if found.status == "succeeded":
        assert verdicts(found) == [Verdict.HOLDS] * 3


@pytest.mark.parametrize("seed", range(12))
def test_plans_that_recompute_in_stalls_hold(seed: int) -> None:
    which = (("1f1b", 2, 2), ("1f1b", 3, 1), ("gpipe", 2, 1), ("1f1b", 2, 1))[seed % 4]
    found = shared_plan(seed, *which, overlap="stalls")
    if found.status == "succeeded":
        assert verdicts(found) == [Verdict.HOLDS] * 3


def test_a_bound_of_plans_on_demand_is_found_out_where_stalls_may_hide_recompute() -> None:
    on_demand = shared_plan(3, "1f1b", 2, 2)
    stalls = shared_plan(3, "1f1b", 2, 2, overlap="stalls")
    assert on_demand.iteration_seconds != stalls.iteration_seconds
    lied = changed(on_demand, request=stalls.request)
    assert verdicts(on_demand) == [Verdict.HOLDS] * 3
    assert verdicts(lied)[BOUND] is Verdict.FALSE


@pytest.mark.parametrize("which", SHARED)
def test_a_bound_above_the_optimum_of_shared_devices_is_found_out(
    which: tuple[str, int, int],
) -> None:
    found = next(p for seed in range(20) if (p := shared_plan(seed, *which)).iteration_seconds)
    assert found.iteration_seconds is not None
    more = found.iteration_seconds * 1.001
    lied = changed(found, iteration_seconds=more, lower_bound_seconds=more)
    assert verdicts(lied)[BOUND] is Verdict.FALSE


def test_what_is_not_checked_is_said() -> None:
    interleaved = hand(
        1e6,
        layout={"pipeline_parallel": 2, "virtual_stages": 2},
        training={"global_batch_size": 4},
    )
    found = plan(interleaved)
    assert verdicts(found)[BOUND] is Verdict.HOLDS
    assert found.request is not None
    request = {**found.request, "recompute": {"policy": "block", "num_layers": 0}}
    claims = recheck(changed(found, request=request))
    assert claims[BOUND].verdict is Verdict.NOT_CHECKED
    assert "several stages" in claims[BOUND].how


def test_a_plan_without_its_request_cannot_be_checked() -> None:
    found = changed(plan(hand(33.0)), request=None)
    with pytest.raises(BadRequest) as refused:
        recheck(found)
    assert refused.value.field == "request"
    assert [c.verdict for c in recheck(found, hand(33.0))] == [Verdict.HOLDS] * 3


def test_a_plan_carries_the_request_as_it_was_asked() -> None:
    asked = hand(33.0)
    found = plan(asked)
    assert PlanRequest.model_validate(found.request) == asked
