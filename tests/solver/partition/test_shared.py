"""Interleaved pipelines against their slow twin: every cut, every choice, every chunk."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from benchmarks.gpt_3 import gpt_3
from solver.costs.pipeline import PipelineCosts
from solver.partition.free_menu import FreeMenu
from solver.partition.outcome import Dominated, Infeasible, Partition
from solver.partition.shared import SharedProblem
from solver.recompute import frontier
from solver.schedules import make_schedule
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs


@pytest.mark.parametrize("seed", range(36))
def test_interleaved_optimum_and_bound_equal_exhaustive_search(seed: int) -> None:
    rng = random.Random(seed)
    devices, chunks = rng.choice([(2, 2), (2, 2), (2, 3), (3, 2)])
    stages = devices * chunks
    costs = random_costs(
        10_000 + seed, stages, most_blocks=stages + 1, most_ops=2, micro_batches=2 * devices
    )
    menu = FreeMenu(costs, tuple(frontier(block) for block in costs.blocks))
    expected = exhaustive.interleaved_optimum(costs, devices, chunks)

    schedule = make_schedule("1f1b", devices, costs.micro_batches, chunks)
    found = SharedProblem(costs, menu, schedule).solve()

    if isinstance(found, Infeasible):
        assert expected == float("inf")
        return
    assert isinstance(found, Partition)
    assert found.makespan == pytest.approx(expected, rel=1e-7)
    assert found.lower_bound <= expected * (1 + 1e-9)
    assert found.lower_bound >= expected * (1 - 1e-6)


def test_a_byte_of_memory_is_refused_with_what_is_missing() -> None:
    costs = replace(gpt_3(4, 4, 1e12), capacity_bytes=1.0)
    schedule = make_schedule("1f1b", 2, 4, 2)
    found = SharedProblem(costs, menu_of(costs), schedule).solve()
    assert isinstance(found, Infeasible)
    less = replace(costs, capacity_bytes=found.needed_bytes * 0.99)
    assert isinstance(SharedProblem(less, menu_of(less), schedule).solve(), Infeasible)
    assert found.missing_bytes == pytest.approx(found.needed_bytes - 1.0)


def test_a_search_that_finds_no_plan_claims_no_more_than_it_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs, schedule = gpt_3(24, 8, 1e12), make_schedule("1f1b", 2, 8, 2)
    best = SharedProblem(costs, menu_of(costs), schedule).solve()
    assert isinstance(best, Partition)
    monkeypatch.setattr(SharedProblem, "_improve", lambda *_: None)
    monkeypatch.setattr(SharedProblem, "_find_fitting", lambda *_: None)
    monkeypatch.setattr(SharedProblem, "_splits_are_few", lambda *_: False)
    for cutoff in (math.inf, best.makespan * 1.5):
        found = SharedProblem(costs, menu_of(costs), schedule).solve(cutoff=cutoff)
        assert isinstance(found, Dominated)
        assert 0 < found.lower_bound <= best.makespan


def menu_of(costs: PipelineCosts) -> FreeMenu:
    """Any choice for any block."""
    return FreeMenu(costs, tuple(frontier(block) for block in costs.blocks))
