"""A layout's plans may be made in several ways, and no search forgets one of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from solver import planner
from solver.plan import Plan
from solver.planner import found_by
from solver.request import PlanRequest
from solver.search import parts
from solver.search.outcome import Outcome
from tests.solver.search.test_spaces import DENSE


def offloads(memory_bytes: float, **layout: Any) -> PlanRequest:
    """One layout of long sequences on four devices with a quick link to the host."""
    fixed: dict[str, Any] = {"pipeline_parallel": 2, "data_parallel": 2, "micro_batch_size": 1}
    fixed |= {"tensor_parallel": 1, "context_parallel": 1, "zero_stage": 1, "sharding_group": 2}
    return PlanRequest.model_validate(
        {
            "model": {"huggingface": DENSE},
            "cluster": {
                "device": "A100-SXM4-80GB",
                "nodes": 1,
                "devices_per_node": 4,
                "memory_bytes": memory_bytes,
                "host_bytes_per_second": 5e10,
            },
            "training": {"sequence_length": 8192, "global_batch_size": 8},
            "layout": {**fixed, "rank_order": "tp-cp-ep-dp-pp", **layout},
            "recompute": {"offload": "on"},
        }
    )


def on_device(request: PlanRequest) -> Outcome:
    return found_by(request.model_copy(update={"recompute": request.recompute.model_validate({})}))


@cache
def plain() -> tuple[PlanRequest, Outcome]:
    """A request that is better off with its hosts, and the search for its plan."""
    request = offloads(3.2e9, pipeline_parallel=4, data_parallel=1, sharding_group=1)
    outcome = found_by(request)
    here = on_device(request)
    assert outcome.found is not None
    assert here.found is not None
    assert outcome.found.partition.makespan < here.lower_bound * (1 - 5e-4)
    return request, outcome


def test_a_search_that_is_dealt_out_tries_the_winner_with_its_hosts_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request, outcome = plain()
    monkeypatch.setattr(parts, "MOST_ALONE", 1)
    found = planner.plan(request)
    assert outcome.found is not None
    assert found.iteration_seconds == pytest.approx(outcome.found.partition.makespan)
    assert found.lower_bound_seconds == pytest.approx(outcome.lower_bound)


def test_the_bound_of_many_layouts_that_share_devices_holds_with_their_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = offloads(3.2e9, schedule="chimera")
    best = found_by(request).found
    assert best is not None
    assert best.costs.offload_bytes
    monkeypatch.setattr("solver.search.search.FEW", 0)
    many = found_by(request)
    assert many.found is not None
    assert many.lower_bound <= best.partition.makespan * (1 + 1e-9)


def test_less_memory_may_take_the_host_where_the_plan_does_not() -> None:
    request, _ = plain()
    roomy = request.cluster.model_copy(update={"memory_bytes": 8e10})
    options = request.solver.model_copy(update={"trade_off": True})
    found: Plan = planner.plan(request.model_copy(update={"cluster": roomy, "solver": options}))
    assert found.offload is None
    assert len(found.trade_off) > 2
    for point in found.trade_off[:-1]:
        own = request.cluster.model_copy(update={"memory_bytes": point.memory_bytes})
        here = found_by(request.model_copy(update={"cluster": own})).found
        assert here is not None
        assert point.iteration_seconds == pytest.approx(here.partition.makespan, rel=2e-4)


@pytest.mark.parametrize("schedule", ["zb-v", "chimera"])
def test_schedules_that_share_devices_alone_may_offload(schedule: str) -> None:
    request = offloads(8e10, schedule=schedule)
    assert found_by(request).found is not None
