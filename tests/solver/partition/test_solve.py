"""The partition against its slow twin: every partition x every choice, simulated exactly."""

from __future__ import annotations

import random

import pytest

from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import solve_partition
from solver.request import Recompute
from solver.schedules import make_schedule
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs

CASES = 160


@pytest.mark.parametrize("seed", range(CASES))
def test_optimum_and_bound_equal_exhaustive_search(seed: int) -> None:
    rng = random.Random(-seed - 1)
    stages = rng.randint(1, 4)
    schedule = rng.choice(["1f1b", "1f1b", "gpipe"])
    costs = random_costs(seed, stages)
    menu = policy_menu(costs, Recompute())
    expected = exhaustive.optimum(costs, schedule, stages)

    found = solve_partition(costs, menu, make_schedule(schedule, stages, costs.micro_batches))

    if isinstance(found, Infeasible):
        assert expected == float("inf")
        assert found.missing_bytes > 0
        return
    assert isinstance(found, Partition)
    assert found.makespan == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.lower_bound <= expected * (1 + 1e-9)
    assert found.lower_bound >= expected * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_where_a_wide_gap_is_asked_for_the_plan_is_within_it(seed: int) -> None:
    costs = random_costs(seed, 4)
    menu = policy_menu(costs, Recompute())
    schedule = make_schedule("1f1b", 4, costs.micro_batches)
    found = solve_partition(costs, menu, schedule, relative_gap=0.05)
    if isinstance(found, Partition):
        exact = solve_partition(costs, menu, schedule)
        assert isinstance(exact, Partition)
        assert found.lower_bound <= exact.makespan * (1 + 1e-9)
        assert found.makespan <= found.lower_bound / (1 - 0.05)
