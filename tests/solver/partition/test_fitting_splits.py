"""Whether any split fits devices that share memory, against every split and every choice."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.gpt_3 import gpt_3
from solver.costs.pipeline import PipelineCosts
from solver.partition import shared
from solver.partition.fitting_splits import FittingSplits
from solver.partition.footprints import Moments, least_held
from solver.partition.outcome import Dominated, Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.partition.shared import SharedProblem
from solver.request import Policy, Recompute
from solver.schedules import Schedule, make_schedule
from tests.solver.every_plan import Choice, Pipeline, _choices, _most
from tests.solver.random_costs import random_costs

SHAPES = (
    Pipeline("1f1b", 2, 2),
    Pipeline("1f1b", 3, 2),
    Pipeline("1f1b", 2, 3),
    Pipeline("zb-v", 2, 2),
    Pipeline("zb-v", 3, 2),
    Pipeline("chimera", 4),
)


def sample(seed: int) -> tuple[Pipeline, PipelineCosts, Schedule]:
    """A random pipeline with blocks to spare."""
    pipeline = SHAPES[seed % len(SHAPES)]
    costs = random_costs(
        70_000 + seed,
        pipeline.depth,
        most_blocks=pipeline.depth + 3,
        most_ops=2,
        micro_batches=2 * pipeline.devices,
        late_weights=True,
    )
    costs = replace(costs, reserved_bytes=random.Random(seed).choice([0.0, 3.0]))
    schedule = make_schedule(
        pipeline.schedule, pipeline.devices, costs.micro_batches, pipeline.chunks, pipeline.group
    )
    return pipeline, costs, schedule


def least_bytes(costs: PipelineCosts, pipeline: Pipeline) -> float:
    """What the fullest device needs in the split and with the choices that need least."""
    orders = pipeline.orders(costs.micro_batches)
    choices = cache(lambda run: _choices(costs, tuple(sorted(run))))
    stages = range(pipeline.depth * pipeline.copies)

    @cache
    def needed(device: int, runs: tuple[tuple[int, ...], ...]) -> float:
        mine = [stage for stage in stages if pipeline.device(stage) == device]
        blocks = [[costs.blocks[kind] for kind in run] for run in runs]
        held = dict(zip(mine, (_held(here, pipeline) for here in blocks), strict=True))
        ways: list[dict[int, Choice]] = [
            dict(zip(mine, picked, strict=True))
            for picked in itertools.product(*(choices(run) for run in runs))
        ]
        most = min(_most(orders[device], way, held, pipeline.splits) for way in ways)  # type: ignore[arg-type]
        return most + sum(block.states.total for here in blocks for block in here)

    best = math.inf
    for cuts in itertools.combinations(range(1, len(costs.sequence)), pipeline.depth - 1):
        edges = (0, *cuts, len(costs.sequence))
        runs = [costs.sequence[a:b] for a, b in itertools.pairwise(edges)] * pipeline.copies
        fullest = 0.0
        for device in range(pipeline.devices):
            mine = tuple(runs[stage] for stage in stages if pipeline.device(stage) == device)
            fullest = max(fullest, needed(device, mine))
            if fullest >= best:
                break
        best = min(best, fullest)
    return best + costs.reserved_bytes


def _held(blocks: list, pipeline: Pipeline) -> float:
    return sum(op.weight_held_bytes for block in blocks for op in block.ops) * pipeline.splits


@pytest.mark.parametrize("seed", range(18))
def test_a_layout_is_infeasible_exactly_where_no_split_and_no_choice_fits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, costs, schedule = sample(seed)
    least = least_bytes(costs, pipeline)
    if not least:
        pytest.skip("nothing needs memory")
    monkeypatch.setattr(shared, "SMALL", 0)  # as if the exact program were too large
    monkeypatch.setattr(shared, "MOST_SPLITS", 0)
    for part in (1 - 1e-6, 1 + 1e-6):
        edge = replace(costs, capacity_bytes=least * part)
        found = partition_problem(edge, policy_menu(edge, Recompute()), schedule).solve()
        if part > 1:
            assert isinstance(found, Partition)
        else:
            assert isinstance(found, Infeasible)
            assert found.needed_bytes >= least * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_no_way_to_hold_a_device_needs_less_than_the_one_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chunks, ways, count = rng.integers(1, 4), rng.integers(1, 5), rng.integers(1, 6)
    at = Moments(
        rng.integers(0, 4, (count, chunks)).astype(float),
        rng.integers(0, 3, (count, chunks)).astype(float),
        rng.integers(0, chunks + 1, count),
    )
    kept = -np.sort(-rng.integers(0, 9, (chunks, ways)).astype(float), axis=1)
    kept[rng.random(chunks) < 0.3, : ways // 2] = math.inf
    buffers = np.sort(rng.integers(0, 9, (chunks, ways)).astype(float), axis=1)
    waiting = rng.integers(0, 5, chunks).astype(float)
    every = []
    for way in itertools.product(range(ways), repeat=int(chunks)):
        held = kept[np.arange(chunks), way]
        if np.isfinite(held).all():
            needed = at.needed(held, buffers[np.arange(chunks), way], waiting)
            every.append(float(needed.max()))
    found, chosen = least_held(at, kept, buffers, waiting)
    assert found == min(every)
    here = np.arange(chunks), list(chosen)
    assert float(at.needed(kept[here], buffers[here], waiting).max()) == found


def _needed(costs: PipelineCosts, schedule: Schedule, recompute: Recompute) -> float:
    """Bytes with which some plan fits, about as few as possible."""
    none = partition_problem(costs, policy_menu(costs, recompute), schedule).solve()
    assert isinstance(none, Infeasible)
    return none.needed_bytes


@pytest.mark.parametrize("policy", [Policy.OPTIMAL, Policy.FULL, Policy.BLOCK])
def test_with_the_bytes_that_were_missing_there_is_a_plan_and_with_far_fewer_none(
    policy: Policy,
) -> None:
    costs, schedule = gpt_3(10, 8, 1.0), make_schedule("1f1b", 2, 8, 2)
    recompute = Recompute(policy=policy, num_layers=2 if policy is Policy.BLOCK else None)
    needed = _needed(costs, schedule, recompute)
    for part, fits in ((1 + 1e-9, True), (0.93, False)):
        edge = replace(costs, capacity_bytes=needed * part)
        problem = partition_problem(edge, policy_menu(edge, recompute), schedule)
        assert isinstance(problem, SharedProblem)
        problem.only_quickly = True
        assert isinstance(problem.solve(), Partition if fits else Infeasible)


def test_a_layout_is_not_called_infeasible_where_that_is_not_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs, schedule = gpt_3(24, 32, 1.0), make_schedule("1f1b", 4, 32, 2)
    needed = _needed(costs, schedule, Recompute())
    edge = replace(costs, capacity_bytes=needed * 0.99)
    monkeypatch.setattr(FittingSplits, "_most_blocks", lambda *_: None)
    monkeypatch.setattr(FittingSplits, "_solve_program", lambda *_: None)
    monkeypatch.setattr("solver.partition.fitting_splits.ROUNDS", 1)
    problem = partition_problem(edge, policy_menu(edge, Recompute()), schedule)
    found = problem.solve()
    assert isinstance(found, Dominated)
    assert 0 < found.lower_bound < math.inf
