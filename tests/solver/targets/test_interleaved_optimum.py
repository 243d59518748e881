"""For each framework that interleaves, on small models: no plan that it can be told is faster."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.targets.registry import TARGETS
from tests.solver.targets.expressible import interleaved_fastest, model
from tests.solver.targets.test_optimum import SAME_AS_MEGATRON, found, settings_of, splits_of

DEVICES, CHUNKS = 2, 2
INTERLEAVING = tuple(name for name, target in TARGETS.items() if target.virtual_stages)
SEEDS = {"pytorch": 3, "mindspeed": 4, "megatron-lm": 6}


def interleaved_model(seed: int) -> PipelineCosts:
    """Four or five layers of one kind or of two, and as many micro-batches as all can take."""
    costs = model(seed, DEVICES * CHUNKS, kinds=1 + seed % 3 // 2)
    return replace(costs, micro_batches=DEVICES * (1 + seed % 2))


def even_with_the_rest_in_the_middle(
    costs: PipelineCosts,
) -> Iterator[tuple[tuple[int, int], ...]]:
    """ColossalAI: an even split of the layers, the embedding before and the head behind."""
    layers, stages = len(costs.sequence) - 2, DEVICES * CHUNKS
    sizes = [layers // stages] * stages
    for extra in range(layers % stages):
        sizes[stages // 2 - layers % stages // 2 + extra] += 1
    sizes[0] += 1
    sizes[-1] += 1
    yield tuple(itertools.pairwise([0, *itertools.accumulate(sizes)]))


@pytest.mark.parametrize("name", sorted(set(INTERLEAVING) - {SAME_AS_MEGATRON}))
def test_no_interleaved_plan_that_can_be_told_is_faster(name: str) -> None:
    feasible, seeds = 0, range(SEEDS.get(name, 8))
    for seed in seeds:
        costs = interleaved_model(seed)
        splits = splits_of(name, costs, DEVICES * CHUNKS)
        if name == "colossalai":
            splits = even_with_the_rest_in_the_middle(costs)
        best = interleaved_fastest(costs, DEVICES, CHUNKS, settings_of(name, costs), splits)
        outcome = found(name, costs, DEVICES, virtual_stages=CHUNKS)
        if outcome.found is None:
            assert math.isinf(best), seed
            continue
        assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-7), seed
        assert outcome.lower_bound <= best * (1 + 1e-9), seed
        assert outcome.lower_bound >= best * (1 - 1e-6), seed
        feasible += 1
    assert feasible > len(seeds) / 3
