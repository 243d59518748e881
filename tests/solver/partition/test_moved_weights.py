"""Weights gathered first and gradients reduced last: bounds and plans against all splits."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.runs import run_totals
from solver.partition.solve import PartitionProblem
from solver.request import Policy, Recompute
from solver.schedules import Schedule, StageTimes, make_schedule, schedule_graph, simulate
from solver.search.bound import quick_bound
from tests.solver.random_costs import random_costs


def moving(seed: int, stages: int, *, late_weights: bool) -> PipelineCosts:
    """Ample memory; gathers and reductions from nothing to more than all passes take."""
    chance = random.Random(seed)
    costs = random_costs(seed, stages, late_weights=late_weights)
    size = chance.choice([1.0, 10.0, 60.0])
    blocks = tuple(
        replace(
            block,
            gather_seconds=chance.choice([0.0, chance.uniform(0, size)]),
            gradient_seconds=chance.uniform(0, size),
            optimizer_seconds=chance.uniform(0, 2),
        )
        for block in costs.blocks
    )
    return replace(
        costs,
        blocks=blocks,
        capacity_bytes=1e9,
        gather_overlap=chance.choice([0.0, 0.5, 1.0]),
        gradient_overlap=chance.choice([0.0, 1.0]),
    )


def best_of_all(costs: PipelineCosts, schedule: Schedule) -> float:
    """The least simulated time over every split, nothing recomputed."""
    length, p = len(costs.sequence), schedule.stages
    plans = [(0, *edges, length) for edges in itertools.combinations(range(1, length), p - 1)]
    counts = np.array(
        [
            [
                [costs.sequence[a:b].count(kind) for kind in range(len(costs.blocks))]
                for a, b in itertools.pairwise(plan)
            ]
            for plan in plans
        ]
    )
    totals = run_totals(
        costs, counts.reshape(-1, len(costs.blocks)), splits_backward=schedule.splits_backward
    )
    shape = (len(plans), p)
    times = StageTimes(
        forward=totals.forward.reshape(shape),
        backward=totals.backward.reshape(shape),
        send=costs.send_seconds,
        before_first=totals.before_first.reshape(shape),
        after_last=totals.after_last.reshape(shape),
        step=totals.step.reshape(shape),
        weight=totals.weight.reshape(shape),
    )
    made = simulate(schedule_graph(schedule), times).makespan
    return float(made.min()) + costs.fixed_seconds


@pytest.mark.parametrize("name", ["1f1b", "gpipe", "zb-h1"])
@pytest.mark.parametrize("seed", range(25))
def test_bounds_hold_and_the_plan_is_the_best_of_all_splits(seed: int, name: str) -> None:
    stages = 1 + seed % 4
    costs = moving(seed, stages, late_weights=name == "zb-h1")
    schedule = make_schedule(name, stages, costs.micro_batches)
    best = best_of_all(costs, schedule)
    late = schedule.splits_backward
    assert quick_bound(costs, stages, splits_backward=late) <= best * (1 + 1e-9)
    menu = policy_menu(costs, Recompute(policy=Policy.NONE))
    problem = PartitionProblem(costs, menu, schedule)
    assert problem.bound <= best * (1 + 1e-9)
    found = problem.solve(relative_gap=0.0)
    assert isinstance(found, Partition)
    assert found.makespan == pytest.approx(best, rel=1e-9)
    assert found.lower_bound == pytest.approx(best, rel=1e-6)


def test_what_a_stage_gathers_and_reduces_is_part_of_its_bound() -> None:
    """Two equal blocks on two devices: neither bound may count less than one device's chain."""
    costs = moving(1, 2, late_weights=False)
    block = replace(costs.blocks[0], gather_seconds=50.0, gradient_seconds=70.0)
    costs = replace(costs, blocks=(block,), sequence=(0, 0), gather_overlap=0.0)
    costs = replace(costs, gradient_overlap=0.0, micro_batches=4)
    schedule = make_schedule("1f1b", 2, 4)
    chain = 120.0 + 4 * (block.forward_seconds + block.backward_seconds) + block.optimizer_seconds
    menu = policy_menu(costs, Recompute(policy=Policy.NONE))
    assert PartitionProblem(costs, menu, schedule).bound >= chain * (1 - 1e-9)
    assert quick_bound(costs, 2) >= chain * (1 - 1e-9)
