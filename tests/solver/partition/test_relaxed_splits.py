"""The relaxation of splits against its slow twin, and what it proves where that cannot go."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace

import pytest

from benchmarks.gpt_3 import gpt_3
from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.partition.relaxed_splits import RelaxedSplits, Unsolved
from solver.partition.shared import SharedProblem
from solver.partition.split_rows import SplitRows
from solver.recompute import frontier
from solver.request import Recompute
from solver.schedules import Schedule, StageTimes, make_schedule
from tests.solver.every_plan import Pipeline, optimum
from tests.solver.random_costs import random_costs

SHAPES = (
    Pipeline("1f1b", 2, 2),
    Pipeline("1f1b", 2, 3),
    Pipeline("1f1b", 3, 2),
    Pipeline("zb-v", 2, 2),
    Pipeline("chimera", 2),
)


def _random_case(seed: int) -> tuple[Pipeline, PipelineCosts]:
    pipeline = SHAPES[seed % len(SHAPES)]
    costs = random_costs(
        90_000 + seed,
        pipeline.depth,
        most_blocks=pipeline.depth + 2,
        most_ops=2,
        micro_batches=2 * pipeline.devices,
        late_weights=True,
    )
    roomier = random.Random(seed).choice([1.0, 1.5, 2.5])
    return pipeline, replace(costs, capacity_bytes=costs.capacity_bytes * roomier)


@pytest.mark.parametrize("seed", range(20))
def test_the_relaxation_is_never_above_exhaustive_search(seed: int) -> None:
    pipeline, costs = _random_case(seed)
    expected = optimum(costs, pipeline)
    schedule = make_schedule(
        pipeline.schedule, pipeline.devices, costs.micro_batches, pipeline.chunks, pipeline.group
    )
    relaxed = RelaxedSplits(costs, tuple(map(frontier, costs.blocks)), schedule, about=1.0)
    rows = SplitRows(relaxed, schedule, [], time.monotonic() + 60)
    even = [1.0] * schedule.stages
    known = StageTimes.of(even, even, costs.send_seconds)
    rows.begin(known)
    bound = rows.bound(known, math.inf, 60).bound
    assert bound + costs.fixed_seconds <= expected * (1 + 1e-9) or math.isinf(expected)
    if math.isinf(bound):
        assert math.isinf(expected)
    else:
        assert math.isinf(expected) or bound > 0.3 * expected


def test_branches_end_at_the_optimum_of_whole_blocks_where_nothing_else_is_left_out() -> None:
    costs = gpt_3(10, 8, 1e15)
    schedule = make_schedule("1f1b", 2, 8, 2)
    found = partition_problem(costs, policy_menu(costs, Recompute()), schedule).solve()
    assert isinstance(found, Partition)
    relaxed = RelaxedSplits(costs, tuple(map(frontier, costs.blocks)), schedule, found.makespan)
    rows = SplitRows(relaxed, schedule, [], time.monotonic() + 60)
    even = StageTimes.of([1.0] * 4, [1.0] * 4, costs.send_seconds)
    rows.begin(even)
    bound = 0.0
    while not (step := rows.bound(even, found.makespan * (1 - 1e-6), 1)).done:
        assert bound <= step.bound <= found.makespan * (1 + 1e-9)
        bound = step.bound
    assert bound >= found.makespan * (1 - 1e-5)


def test_a_solve_that_ends_before_it_has_a_solution_keeps_the_bound_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(6):
        pipeline, costs = _random_case(seed)
        schedule = make_schedule(
            pipeline.schedule,
            pipeline.devices,
            costs.micro_batches,
            pipeline.chunks,
            pipeline.group,
        )
        relaxed = RelaxedSplits(costs, tuple(map(frontier, costs.blocks)), schedule, about=1.0)
        rows = SplitRows(relaxed, schedule, [], time.monotonic() + 60)
        even = StageTimes.of([1.0] * schedule.stages, [1.0] * schedule.stages, costs.send_seconds)
        before = rows.bound(even, math.inf, 3)
        if before.done:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(RelaxedSplits, "solve", lambda *_: Unsolved())
            after = rows.bound(even, math.inf, 3)
        assert after.bound == before.bound
        assert after.bound + costs.fixed_seconds <= optimum(costs, pipeline) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("capacity_bytes", "gap"), [(1e15, 0.005), (4.12e10, 0.02)], ids=["ample", "tight"]
)
def test_interleaved_plans_come_with_a_small_gap(capacity_bytes: float, gap: float) -> None:
    costs = gpt_3(32, 32, capacity_bytes)
    schedule = make_schedule("1f1b", 4, 32, 2)
    found = partition_problem(costs, policy_menu(costs, Recompute()), schedule).solve()
    assert isinstance(found, Partition)
    assert found.lower_bound >= found.makespan * (1 - gap)


def test_where_only_few_plans_are_wanted_a_plan_that_barely_fits_is_still_found() -> None:
    costs = gpt_3(24, 32, 1e15)
    schedule = make_schedule("1f1b", 4, 32, 2)
    bytes_needed = _least_bytes(costs, schedule)
    tight = replace(costs, capacity_bytes=bytes_needed * 1.0001)
    problem = partition_problem(tight, policy_menu(tight, Recompute()), schedule)
    assert isinstance(problem, SharedProblem)
    problem.only_quickly = True
    assert isinstance(problem.solve(), Partition)


def _least_bytes(costs: PipelineCosts, schedule: Schedule) -> float:
    """What the first plans need at least."""
    none = replace(costs, capacity_bytes=1.0)
    found = partition_problem(none, policy_menu(none, Recompute()), schedule).solve()
    assert isinstance(found, Infeasible)
    return found.needed_bytes
