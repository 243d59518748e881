"""The search over layouts against solving every one of them to the end."""

from __future__ import annotations

import math
from functools import cache

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout, listed
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.planner import found_by
from solver.progress import Progress
from solver.question import Question, question
from solver.request import PlanRequest, Recompute
from solver.schedules import make_schedule
from solver.search.bound import quick_bound
from solver.search.outcome import Outcome
from solver.search.search import one_regime, search
from tests.solver.random_costs import random_costs
from tests.solver.requests import profile_request, small

MODELS = {
    "llama-3.2-1b": small(),
    "gpt-2-xl": small(
        "gpt-2-xl",
        cluster={"device": "V100-SXM2-32GB", "nodes": 1, "devices_per_node": 4},
        training={"sequence_length": 1024, "global_batch_size": 16, "precision": "fp16"},
    ),
    "tight": small(
        "llama-3.2-1b",
        cluster={
            "device": "RTX4090",
            "nodes": 1,
            "devices_per_node": 4,
            "memory_bytes": 1.1e10,
        },
        layout={"micro_batch_size": 1},
    ),
    "impossible": small("llama-2-13b"),
    "full recompute": small(recompute={"policy": "full"}),
}


def profile_with_free_stages(seed: int) -> PlanRequest:
    """A random profile on up to four devices."""
    costs = random_costs(seed, 3)
    document = profile_request(costs, "1f1b", 1)
    document["layout"] = {"schedule": "1f1b"}
    document["cluster"] |= {"nodes": 2, "devices_per_node": 2}
    return PlanRequest.model_validate(document)


REQUESTS = {**MODELS, **{f"profile{seed}": profile_with_free_stages(seed) for seed in range(25)}}


def found(asked: Question, *, gap: float = 0.0, seconds: float = 60.0) -> Outcome:
    return search(
        listed(asked.layouts, [asked.costs(one).micro_batches for one in asked.layouts]),
        asked.costs,
        one_regime(lambda costs: policy_menu(costs, asked.request.recompute)),
        relative_gap=gap,
        time_limit_seconds=seconds,
    )


@cache
def asked_and_all(name: str) -> tuple[Question, tuple[Partition | Infeasible, ...]]:
    """The question, and what every layout of it comes to when solved to the end."""
    asked = question(REQUESTS[name])
    return asked, tuple(solved(asked.costs(x), x, asked.request.recompute) for x in asked.layouts)


def solved(costs: PipelineCosts, layout: Layout, recompute: Recompute) -> Partition | Infeasible:
    schedule = make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches)
    result = PartitionProblem(costs, policy_menu(costs, recompute), schedule).solve(relative_gap=0)
    assert isinstance(result, Partition | Infeasible)
    return result


def makespans(results: tuple[Partition | Infeasible, ...]) -> list[float]:
    return [r.makespan if isinstance(r, Partition) else math.inf for r in results]


@pytest.mark.parametrize("name", REQUESTS)
def test_the_best_layout_is_found_without_solving_all(name: str) -> None:
    asked, everything = asked_and_all(name)
    outcome = found(asked)
    best = min(makespans(everything))
    assert outcome.considered == len(asked.layouts)
    assert outcome.unfinished == 0
    if math.isinf(best):
        assert outcome.found is None
        return
    assert outcome.found is not None
    assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-9)
    assert outcome.lower_bound <= best * (1 + 1e-9)
    assert outcome.lower_bound >= best * (1 - 1e-6)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_quick_bound_never_exceeds_what_a_layout_comes_to(name: str) -> None:
    asked, everything = asked_and_all(name)
    for layout, makespan in zip(asked.layouts, makespans(everything), strict=True):
        assert quick_bound(asked.costs(layout), layout.pipeline_parallel) <= makespan * (1 + 1e-9)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_wide_gap_is_kept_and_its_bound_holds(name: str) -> None:
    asked, everything = asked_and_all(name)
    best = min(makespans(everything))
    outcome = found(asked, gap=0.1)
    if outcome.found is not None:
        assert outcome.found.partition.makespan <= best * 1.1 * (1 + 1e-9)
        assert outcome.lower_bound <= best * (1 + 1e-9)


def test_where_nothing_fits_the_layout_that_misses_least_is_named() -> None:
    asked, everything = asked_and_all("impossible")
    outcome = found(asked)
    assert outcome.found is None
    assert outcome.infeasible == len(asked.layouts)
    assert outcome.nearest is not None
    layout, missing = outcome.nearest
    least = min(r.missing_bytes for r in everything if isinstance(r, Infeasible))
    assert missing.missing_bytes == least
    assert everything[asked.layouts.index(layout)] == missing


def test_most_layouts_are_given_up_without_a_solution() -> None:
    asked, _ = asked_and_all("llama-3.2-1b")
    outcome = found(asked)
    assert outcome.pruned > len(asked.layouts) / 2


@pytest.mark.parametrize("name", ["llama-3.2-1b", "tight", "impossible"])
def test_layouts_that_were_considered_are_accounted_for(name: str) -> None:
    asked, _ = asked_and_all(name)
    outcome = found(asked)
    others = outcome.pruned + outcome.infeasible + outcome.unfinished
    assert others <= outcome.considered
    assert outcome.found is None or others < outcome.considered


@pytest.mark.parametrize("name", ["llama-3.2-1b", "profile3"])
def test_without_time_nothing_false_is_claimed(name: str) -> None:
    asked, everything = asked_and_all(name)
    outcome = found(asked, seconds=0.0)
    assert outcome.found is None
    assert outcome.nearest is None
    assert outcome.unfinished + outcome.infeasible == len(asked.layouts)
    assert outcome.unfinished > 0
    assert outcome.lower_bound <= min(makespans(everything))


def test_interrupted_anywhere_the_bound_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock runs out after each number of layouts in turn."""
    asked, everything = asked_and_all("llama-3.2-1b")
    best = min(makespans(everything))
    unfinished = set()
    for looks in range(1, 30, 3):
        clock = iter([0.0] * looks)
        monkeypatch.setattr("solver.search.search.time.monotonic", lambda c=clock: next(c, 1e9))
        outcome = found(asked)
        monkeypatch.undo()
        unfinished.add(outcome.unfinished)
        assert outcome.lower_bound <= best * (1 + 1e-9)
        if outcome.found is not None:
            assert outcome.found.partition.makespan >= best * (1 - 1e-9)
    assert len(unfinished) > 1


def test_progress_is_told_before_every_step() -> None:
    asked, _ = asked_and_all("llama-3.2-1b")
    told: list[Progress] = []
    search(
        listed(asked.layouts, [asked.costs(one).micro_batches for one in asked.layouts]),
        asked.costs,
        one_regime(lambda costs: policy_menu(costs, asked.request.recompute)),
        relative_gap=0.0,
        time_limit_seconds=60.0,
        progress=told.append,
    )
    bounds = [step.bound_seconds for step in told]
    assert len(told) > 1
    assert bounds == sorted(bounds)
    assert told[0].incumbent_seconds is None
    assert {step.layouts_total for step in told} == {len(asked.layouts)}


def test_losers_are_no_faster_than_the_winner_and_bounds_no_larger_than_times() -> None:
    outcome = found(question(MODELS["llama-3.2-1b"]))
    assert outcome.found is not None
    assert outcome.losers
    for loser in outcome.losers:
        assert loser.lower_bound >= outcome.lower_bound
        if loser.makespan is not None:
            assert loser.makespan >= outcome.found.partition.makespan
            assert loser.lower_bound <= loser.makespan * (1 + 1e-9)


def test_an_interleaved_layout_that_cannot_fit_is_infeasible_not_unfinished() -> None:
    request = small(
        "llama-2-13b",
        cluster={"device": "RTX4090", "nodes": 1, "devices_per_node": 4, "memory_bytes": 2e10},
        layout={"pipeline_parallel": 4, "virtual_stages": 2, "micro_batch_size": 1},
    )
    outcome = found(question(request))
    assert outcome.found is None
    assert outcome.unfinished == 0
    assert outcome.nearest is not None
    assert outcome.nearest[1].missing_bytes > 0


def test_where_promising_layouts_that_share_devices_do_not_fit_others_are_tried() -> None:
    """Large micro-batches promise most, and without recompute only small ones fit."""
    request = small(
        "llama-3.1-8b",
        cluster={"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 4},
        training={"sequence_length": 1024, "global_batch_size": 64, "precision": "bf16"},
        layout={"data_parallel": 4, "schedule": "zb-h1"},
        recompute={"policy": "none"},
    )
    outcome = found_by(request)
    assert outcome.found is not None
    assert outcome.lower_bound <= outcome.found.partition.makespan
