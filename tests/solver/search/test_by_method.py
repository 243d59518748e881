"""The search over what AdaPipe and Lynx-HEU make of each layout, against asking them of all."""

from __future__ import annotations

import math
from typing import Any

import pytest

from solver.assess import assess
from solver.baselines.methods import METHODS
from solver.errors import BadRequest
from solver.partition.outcome import Partition
from solver.plan import Plan, Status
from solver.planner import evaluate, plan
from solver.question import Question, question
from solver.recheck import Verdict, recheck
from solver.request import Overlap, PlanRequest, Policy
from solver.schedules import make_schedule
from solver.search.by_method import search_by_method
from solver.search.outcome import Outcome
from tests.solver.random_costs import random_costs
from tests.solver.requests import hand, profile_request, small

LISTED = {
    "data_parallel": None,
    "micro_batch_size": [1, 2],
    "zero_stage": [0, 1, 2],
    "schedule": ["gpipe", "1f1b"],
}
POLICIES = ("adapipe", "lynx-heu")


def under(policy: str, **changes: Any) -> PlanRequest:
    return small(recompute={"policy": policy}, **changes)


def profile(policy: str, seed: int) -> PlanRequest:
    """A random profile on up to four devices."""
    document = profile_request(random_costs(seed, 3), "1f1b", 1)
    document["layout"] = {"schedule": "1f1b"}
    document["cluster"] |= {"nodes": 2, "devices_per_node": 2}
    document["recompute"] = {"policy": policy}
    return PlanRequest.model_validate(document)


def times(asked: Question) -> list[float]:
    """What the method makes of every layout that it knows."""
    method = METHODS[asked.request.recompute.policy]
    found = []
    for family in asked.families:
        for position in range(len(family)):
            for layout in family.variants(position):
                if not method.knows(layout.schedule, layout.virtual_stages):
                    continue
                costs = asked.costs(layout)
                shape = (layout.schedule, layout.pipeline_parallel, costs.micro_batches)
                schedule = make_schedule(*shape)
                stages = method.stages(costs, schedule, Overlap.OFF)
                seconds = math.inf
                if stages is not None:
                    seconds = assess(costs, schedule, stages).makespan
                found.append(seconds)
    return found


def searched(asked: Question, gap: float = 0.0) -> Outcome:
    return search_by_method(
        asked.families,
        asked.costs,
        METHODS[asked.request.recompute.policy],
        Overlap.OFF,
        relative_gap=gap,
        time_limit_seconds=60.0,
        rough=asked.rough,
    )


TIGHT = {"device": "RTX4090", "nodes": 1, "devices_per_node": 4, "memory_bytes": 9e9}


@pytest.mark.parametrize(
    ("policy", "changes"),
    [("adapipe", {"cluster": TIGHT}), ("lynx-heu", {"layout": LISTED})],
    ids=["tight", "listed"],
)
def test_the_best_of_all_its_plans_is_found(policy: str, changes: dict[str, Any]) -> None:
    asked = question(under(policy, **changes), to_plan=True)
    everything, outcome = times(asked), searched(asked)
    assert outcome.found is not None
    assert outcome.found.partition.makespan == pytest.approx(min(everything), rel=1e-12)
    assert outcome.lower_bound == outcome.found.partition.makespan
    assert outcome.considered == len(everything)
    ended = outcome.solved + outcome.pruned + outcome.infeasible + outcome.unfinished
    assert ended == outcome.considered


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(12))
def test_of_random_profiles_too(policy: str, seed: int) -> None:
    asked = question(profile(policy, seed), to_plan=True)
    everything, outcome = times(asked), searched(asked)
    best = min(everything)
    assert (outcome.found is None) == math.isinf(best)
    if outcome.found is not None:
        assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-12)
        assert outcome.lower_bound == pytest.approx(best, rel=1e-12)
    loose = searched(asked, gap=0.2)
    if loose.found is not None:
        assert loose.lower_bound <= best * (1 + 1e-12)
        assert loose.found.partition.makespan <= best * 1.25 * (1 + 1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_its_plan_is_what_an_evaluation_of_the_layout_shows(policy: str) -> None:
    found = plan(under(policy))
    assert found.layout is not None
    fixed = {k: v for k, v in found.layout.model_dump().items() if v is not None}
    again = evaluate(under(policy, layout=fixed))
    assert again.iteration_seconds == found.iteration_seconds
    assert again.stages == found.stages
    assert found.baselines[policy].iteration_seconds == found.iteration_seconds


@pytest.mark.parametrize("policy", POLICIES)
def test_the_best_plan_of_all_is_no_slower(policy: str) -> None:
    its, best = plan(under(policy)), plan(small())
    assert its.iteration_seconds is not None
    assert best.lower_bound_seconds is not None
    assert best.lower_bound_seconds <= its.iteration_seconds


def _bound(found: Plan) -> Verdict:
    return recheck(found)[2].verdict


def test_a_check_asks_the_method_again() -> None:
    found = plan(hand(recompute={"policy": "adapipe"}))
    assert found.iteration_seconds is not None
    assert _bound(found) is Verdict.HOLDS
    quicker = 0.9 * found.iteration_seconds
    changed = found.model_copy(
        update={"iteration_seconds": quicker, "lower_bound_seconds": quicker}
    )
    assert _bound(changed) is Verdict.FALSE


def test_where_nothing_fits_its_even_split_says_what_is_missing() -> None:
    """Two layers of 10 state bytes; two in flight of 1 byte of input; a buffer for 5 bytes."""
    assert plan(hand(29, recompute={"policy": "adapipe"})).status is Status.SUCCEEDED
    found = plan(hand(28, recompute={"policy": "adapipe"}))
    assert found.status is Status.INFEASIBLE
    assert found.shortfall is not None
    assert (found.shortfall.stage, found.shortfall.missing_bytes) == (0, 1.0)
    assert found.error is not None
    assert "its even split" in found.error


@pytest.mark.parametrize(
    ("policy", "changes", "field"),
    [
        ("adapipe", {"layout": {"schedule": "gpipe"}}, "layout.schedule"),
        ("lynx-heu", {"layout": {"schedule": "zb-h1"}}, "layout.schedule"),
        (
            "lynx-heu",
            {"layout": {"virtual_stages": 2, "pipeline_parallel": 2}},
            "layout.virtual_stages",
        ),
    ],
)
def test_what_it_does_not_plan_is_refused(policy: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        plan(under(policy, **changes))
    assert refused.value.field == field
    assert refused.value.hint


def test_unlike_devices_are_refused() -> None:
    request = profile("lynx-heu", 0).model_dump(mode="json", exclude_unset=True)
    request["cluster"]["stage_devices"] = [{"memory_bytes": 1e9}, {"memory_bytes": 2e9}]
    del request["cluster"]["nodes"], request["cluster"]["devices_per_node"]
    request["layout"] = {"schedule": "1f1b", "pipeline_parallel": 2}
    with pytest.raises(BadRequest) as refused:
        plan(PlanRequest.model_validate(request))
    assert refused.value.field == "recompute.policy"


def test_methods_are_the_policies_that_papers_name() -> None:
    assert set(METHODS) == {Policy.ADAPIPE, Policy.LYNX_HEU}
    costs = random_costs(0, 3)
    for method in METHODS.values():
        schedule = make_schedule("1f1b", 2, costs.micro_batches)
        made = method.partition(costs, schedule, Overlap.OFF)
        if isinstance(made, Partition):
            assert made.lower_bound == made.makespan
