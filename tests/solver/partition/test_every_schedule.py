"""Every schedule against its slow twin: each cut, each choice of each block, simulated exactly.

Sends take time or none; blocks are of several kinds, or halves of layers in turn; memory lies
anywhere from too little to ample. Interleaved pipelines have groups of any size and chunks of
uneven size.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.request import Recompute
from solver.schedules import make_schedule
from tests.solver.every_plan import Pipeline, optimum
from tests.solver.random_costs import random_costs

SAMPLE = 70
"""Profiles that are tried every time."""

ALL = 1_000
"""Profiles in all."""

SHAPES: tuple[tuple[Pipeline, int | None], ...] = (
    (Pipeline("gpipe", 2), None),
    (Pipeline("gpipe", 3), None),
    (Pipeline("1f1b", 1), None),
    (Pipeline("1f1b", 3), None),
    (Pipeline("1f1b", 4), None),
    (Pipeline("1f1b", 2, 2), 4),
    (Pipeline("1f1b", 2, 2, 3), 7),
    (Pipeline("1f1b", 2, 2, 4), 4),
    (Pipeline("1f1b", 2, 3), 4),
    (Pipeline("1f1b", 3, 2), 6),
    (Pipeline("zb-h1", 1), None),
    (Pipeline("zb-h1", 2), None),
    (Pipeline("zb-h1", 3), None),
    (Pipeline("zb-h1", 4), None),
    (Pipeline("zb-v", 2, 2), None),
    (Pipeline("zb-v", 3, 2), None),
    (Pipeline("chimera", 2), 2),
    (Pipeline("chimera", 2), 6),
    (Pipeline("chimera", 4), 4),
)
"""Pipelines and, where they ask for certain ones, their micro-batches."""


def profile(seed: int) -> tuple[Pipeline, PipelineCosts]:
    """A random pipeline and what its blocks cost."""
    rng = random.Random(seed)
    pipeline, micro_batches = rng.choice(SHAPES)
    stages = pipeline.depth
    shared = pipeline.depth * pipeline.copies > pipeline.devices
    costs = random_costs(
        50_000 + seed,
        stages,
        most_blocks=stages + (1 if shared else 3),
        most_ops=2 if shared else 3,
        micro_batches=micro_batches,
        late_weights=True,
    )
    if rng.random() < 0.4:  # attention and feed-forward halves in turn
        kinds = min(2, len(costs.blocks))
        costs = replace(costs, sequence=tuple(i % kinds for i in range(len(costs.sequence))))
    roomier = rng.choice([1.0, 1.0, 1.5, 2.5, 4.0])
    return pipeline, replace(costs, capacity_bytes=costs.capacity_bytes * roomier)


def check(seed: int) -> None:
    """Optimum and bound of one profile equal exhaustive search."""
    pipeline, costs = profile(seed)
    expected = optimum(costs, pipeline)
    schedule = make_schedule(
        pipeline.schedule,
        pipeline.devices,
        costs.micro_batches,
        pipeline.chunks,
        pipeline.group,
    )
    found = partition_problem(costs, policy_menu(costs, Recompute()), schedule).solve()
    if isinstance(found, Infeasible):
        assert math.isinf(expected)
        return
    assert isinstance(found, Partition)
    assert found.makespan == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found.lower_bound <= expected * (1 + 1e-9)
    assert found.lower_bound >= expected * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_optimum_and_bound_equal_exhaustive_search(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SAMPLE, ALL, 93))
def test_optimum_and_bound_equal_exhaustive_search_on_a_thousand_profiles(first: int) -> None:
    for seed in range(first, min(first + 93, ALL)):
        check(seed)
