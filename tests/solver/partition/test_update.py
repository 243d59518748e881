"""What the optimizer's step works on: no plan of a device that cannot hold it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Infeasible, Partition
from solver.partition.solve import solve_partition
from solver.schedules import make_schedule
from tests.solver import exhaustive
from tests.solver.partition.samples import free_menu
from tests.solver.random_costs import random_costs


def with_updates(seed: int, stages: int) -> PipelineCosts:
    costs, rng = random_costs(seed, stages), random.Random(seed)
    blocks = tuple(replace(block, update_bytes=rng.uniform(0, 30)) for block in costs.blocks)
    return replace(costs, blocks=blocks)


@pytest.mark.parametrize("seed", range(24))
def test_the_optimum_equals_exhaustive_search(seed: int) -> None:
    stages = 1 + seed % 2
    costs = with_updates(seed, stages)
    schedule = make_schedule("1f1b", stages, costs.micro_batches)
    expected = exhaustive.optimum(costs, "1f1b", stages)
    found = solve_partition(costs, free_menu(costs), schedule)
    if math.isinf(expected):
        assert isinstance(found, Infeasible)
    else:
        assert isinstance(found, Partition)
        assert found.makespan == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_some_samples_fit_but_for_the_step() -> None:
    lost = 0
    for seed in range(24):
        stages = 1 + seed % 2
        without = exhaustive.optimum(random_costs(seed, stages), "1f1b", stages)
        lost += without < exhaustive.optimum(with_updates(seed, stages), "1f1b", stages)
    assert lost > 2
