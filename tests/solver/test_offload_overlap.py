"""Activations in host memory beside recompute that hides: one frontier with both."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache

import pytest

from solver.costs.pipeline import Host, PipelineCosts
from solver.errors import SolverFailed
from solver.plan import Status
from solver.planner import evaluate, plan
from solver.recheck import Verdict, recheck
from solver.request import PlanRequest
from solver.verify_offload import check_times
from tests.solver import exhaustive, exhaustive_overlap
from tests.solver.overlap_samples import pipeline_with_windows
from tests.solver.requests import profile_request

OVERLAPS = ("communication", "stalls", "all")


@cache
def sample(seed: int) -> tuple[PipelineCosts, str, int]:
    """A random pipeline with windows and a link to the host."""
    rng = random.Random(seed)
    costs, schedule = pipeline_with_windows(seed, most_stages=3, most_blocks=4)
    costs = replace(costs, host=Host(rng.choice([0.3, 1.0, 3.0]), math.inf))
    roomier = rng.choice([1.0, 1.2, 1.5])
    costs = replace(costs, capacity_bytes=costs.capacity_bytes * roomier)
    return costs, schedule.name, schedule.devices


def asked(seed: int, **recompute: str) -> PlanRequest:
    costs, schedule, stages = sample(seed)
    assert costs.host is not None
    document = profile_request(costs, schedule, stages)
    document["model"]["profile"]["overlap_slowdown"] = costs.overlapping.slowdown
    document["cluster"]["host_bytes_per_second"] = costs.host.bytes_per_second
    document["recompute"] = recompute
    return PlanRequest.model_validate(document)


BOTH = (170, 192, 368, 402, 463, 493)
"""Random pipelines that are better off with both than with either."""


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("seed", [*range(4), *BOTH])
def test_no_tensor_in_any_place_or_at_the_host_makes_a_plan_faster(seed: int, overlap: str) -> None:
    expected = exhaustive_overlap.offloading_optimum(*sample(seed), overlap)
    found = plan(asked(seed, overlap=overlap, offload="on"))
    if found.status is Status.INFEASIBLE:
        assert math.isinf(expected)
        return
    assert found.iteration_seconds == pytest.approx(expected, rel=1e-9)
    assert found.lower_bound_seconds is not None
    assert found.lower_bound_seconds <= expected * (1 + 1e-9)


def test_both_together_are_faster_than_either() -> None:
    for seed in BOTH:
        together = exhaustive_overlap.offloading_optimum(*sample(seed), "all")
        hidden = exhaustive_overlap.optimum(*sample(seed), "all")
        assert together < min(hidden, exhaustive.offloading_optimum(*sample(seed)))


def test_an_answer_says_both_and_is_checked_again() -> None:
    found = plan(asked(402, overlap="all", offload="on"))
    entries = [entry for stage in found.stages for entry in stage.recompute]
    assert any(entry.placed for entry in entries)
    assert any(entry.offloaded for entry in entries)
    assert not any(e.offloaded for s in found.stages if s.recomputes_ahead for e in s.recompute)
    assert found.offload is not None
    assert found.offload.staging_bytes == pytest.approx(4 * max(found.offload.block_bytes.values()))
    assert recheck(found)[0].verdict is Verdict.HOLDS
    assert found.explanation is not None
    first = found.explanation.prices[0]
    assert first.restriction == "nothing in host memory"
    assert first.iteration_seconds == pytest.approx(
        exhaustive_overlap.optimum(*sample(402), "all"), rel=1e-9
    )


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_an_evaluation_with_both_is_no_slower_than_with_either(overlap: str) -> None:
    ways: tuple[dict[str, str], ...] = ({"overlap": overlap}, {"offload": "on"})
    both = evaluate(asked(402, overlap=overlap, offload="on"))
    assert both.fits
    for way in ways:
        alone = evaluate(asked(402, **way))
        assert not alone.fits or both.iteration_seconds <= alone.iteration_seconds * (1 + 1e-12)


def test_the_check_catches_what_is_not_back_in_time() -> None:
    """Of a stage ahead nothing may be away, nor of a window's block where no room is for it."""
    found = plan(asked(402, overlap="communication", offload="on"))
    costs = replace(sample(402)[0], staged_blocks=3)
    stage = next(
        s
        for s in found.stages
        if any(e.offloaded and any(p.following for p in e.placed) for e in s.recompute)
    )
    check_times(replace(costs, staged_blocks=4), stage)
    with pytest.raises(SolverFailed, match="no room for blocks"):
        check_times(costs, stage)
    with pytest.raises(SolverFailed, match="ahead of the gradient"):
        check_times(costs, stage.model_copy(update={"recomputes_ahead": True}))
