"""Blocks of a kind that must choose alike: on a stage, or in the whole model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.layouts import Layout, listed
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.partition.solve import solve_partition
from solver.planner import evaluate, plan
from solver.request import ChoicePer, Policy, Recompute
from solver.schedules import make_schedule
from solver.search.search import search
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs
from tests.solver.requests import hand

Choice = tuple[float, float, float]


def alike_combinations(costs: PipelineCosts, kinds: set[int]) -> list[dict[int, Choice]]:
    """Every choice of each of these kinds, the same for all its blocks."""
    ordered = sorted(kinds)
    options = [exhaustive.block_choices(costs.blocks[kind]) for kind in ordered]
    return [dict(zip(ordered, picked, strict=True)) for picked in itertools.product(*options)]


def seconds_of(
    costs: PipelineCosts, run: tuple[int, ...], flight: int, chosen: Mapping[int, Choice]
) -> float:
    """Recompute seconds of a stage whose blocks take the choice of their kind, if that fits."""
    used = sum(costs.blocks[k].states.total for k in run)
    used += flight * sum(chosen[k][0] for k in run) + max(chosen[k][2] for k in run)
    return sum(chosen[k][1] for k in run) if used <= costs.capacity_bytes else math.inf


def optimum(
    costs: PipelineCosts, stages: int, recompute: Callable[[tuple[int, ...], int], float]
) -> float:
    """The least makespan over every split, given what a run recomputes."""
    n, best = costs.micro_batches, math.inf
    for cuts in itertools.combinations(range(1, len(costs.sequence)), stages - 1):
        runs = [costs.sequence[a:b] for a, b in itertools.pairwise((0, *cuts, len(costs.sequence)))]
        flights = [exhaustive.in_flight("1f1b", s, stages, n) for s in range(stages)]
        extra = [recompute(run, flight) for run, flight in zip(runs, flights, strict=True)]
        if math.isinf(sum(extra)):
            continue
        forward = [sum(costs.blocks[k].forward_seconds for k in run) for run in runs]
        backward = [
            sum(costs.blocks[k].backward_seconds for k in run) + more
            for run, more in zip(runs, extra, strict=True)
        ]
        best = min(best, exhaustive.makespan("1f1b", forward, backward, n, costs.send_seconds))
    return best


@pytest.mark.parametrize("seed", range(50))
def test_one_choice_per_stage_equals_exhaustive_search(seed: int) -> None:
    stages = 2 + seed % 2
    costs = random_costs(seed, stages)
    schedule = make_schedule("1f1b", stages, costs.micro_batches)
    menu = policy_menu(costs, Recompute(choice_per=ChoicePer.STAGE))
    found = solve_partition(costs, menu, schedule)
    expected = optimum(
        costs,
        stages,
        lambda run, flight: min(
            seconds_of(costs, run, flight, chosen) for chosen in alike_combinations(costs, set(run))
        ),
    )
    if math.isinf(expected):
        assert isinstance(found, Infeasible)
        return
    assert isinstance(found, Partition)
    assert found.makespan == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.lower_bound == pytest.approx(expected, rel=1e-9, abs=1e-12)


def layout_of(stages: int) -> Layout:
    """A layout that only says how many stages there are."""
    return Layout(
        tensor_parallel=1,
        pipeline_parallel=stages,
        context_parallel=1,
        expert_parallel=1,
        data_parallel=1,
        virtual_stages=1,
        micro_batch_size=1,
        sequence_parallel=False,
        zero_stage=1,
        schedule="1f1b",
    )


@pytest.mark.parametrize("seed", range(50))
def test_one_choice_for_the_model_equals_exhaustive_search(seed: int) -> None:
    stages = 2 + seed % 2
    costs = random_costs(seed, stages, most_ops=2)
    outcome = search(
        listed((layout_of(stages),), (costs.micro_batches,)),
        lambda _: costs,
        lambda _, own: policy_regimes(own, Recompute(choice_per=ChoicePer.MODEL)),
        relative_gap=1e-9,
        time_limit_seconds=60.0,
    )
    expected = min(
        optimum(
            costs,
            stages,
            lambda run, flight, chosen=chosen: seconds_of(costs, run, flight, chosen),  # type: ignore[misc]
        )
        for chosen in alike_combinations(costs, set(costs.sequence))
    )
    if math.isinf(expected):
        assert outcome.found is None
        return
    assert outcome.found is not None
    assert outcome.found.partition.makespan == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert outcome.lower_bound <= expected * (1 + 1e-9)


def test_the_more_must_be_alike_the_slower() -> None:
    seconds = [plan(hand(33.0, recompute={"choice_per": per})) for per in ChoicePer]
    times = [found.iteration_seconds for found in seconds]
    assert None not in times
    assert times == sorted(times)
    assert times == [76.0, 78.0, 90.0]


def test_a_plan_says_what_each_restriction_would_cost() -> None:
    free = plan(hand(33.0))
    assert free.explanation is not None
    priced = {entry.restriction: entry for entry in free.explanation.prices}
    for per, words in (("stage", "and stage"), ("model", "in the model")):
        (entry,) = [entry for name, entry in priced.items() if words in name]
        alike = plan(hand(33.0, recompute={"choice_per": per}))
        assert entry.iteration_seconds == alike.iteration_seconds
        assert entry.slower == pytest.approx(alike.iteration_seconds / free.iteration_seconds - 1)
    for policy in ("block", "uniform"):
        words = "first k" if policy == "block" else "groups of k"
        (entry,) = [entry for name, entry in priced.items() if words in name]
        best = min(
            (
                found.iteration_seconds or math.inf
                for k in range(policy == "uniform", 5)
                for found in [plan(hand(33.0, recompute={"policy": policy, "num_layers": k}))]
            ),
        )
        assert (entry.iteration_seconds or math.inf) == best


def test_a_restricted_plan_is_not_priced_again() -> None:
    found = plan(hand(33.0, recompute={"choice_per": "stage"}))
    assert found.explanation is not None
    assert found.explanation.prices == []


def test_an_evaluation_keeps_to_one_choice_for_the_model() -> None:
    judged = evaluate(hand(33.0, recompute={"choice_per": "model"}))
    assert len({tuple(e.recomputed) for s in judged.stages for e in s.recompute}) == 1
    assert judged.fits


@pytest.mark.parametrize("policy", [p for p in Policy if p is not Policy.OPTIMAL])
def test_other_policies_leave_no_choice_to_share(policy: Policy) -> None:
    asked = hand(33.0, recompute={"policy": policy, "num_layers": 1, "choice_per": "stage"})
    with pytest.raises(BadRequest):
        plan(asked)


def test_one_choice_per_stage_is_refused_where_stages_share_devices() -> None:
    asked = hand(
        1e6,
        recompute={"choice_per": "stage"},
        layout={"pipeline_parallel": 2, "virtual_stages": 2},
        training={"global_batch_size": 4},
    )
    with pytest.raises(BadRequest) as refused:
        plan(asked)
    assert refused.value.field == "recompute.choice_per"


@pytest.mark.parametrize(
    "layout",
    [
        {"pipeline_parallel": 2, "virtual_stages": [1, 2]},
        {"pipeline_parallel": 2, "schedule": ["1f1b", "chimera"]},
    ],
)
def test_one_choice_per_stage_is_refused_before_a_layout_that_cannot_have_it_is_reached(
    layout: dict[str, object],
) -> None:
    asked = hand(
        layout=layout, recompute={"choice_per": "stage"}, training={"global_batch_size": 4}
    )
    with pytest.raises(BadRequest) as refused:
        plan(asked)
    assert refused.value.field == "recompute.choice_per"
    assert refused.value.hint
