"""For each framework that interleaves, on small models: no plan that it can be told is faster."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout, listed
from solver.search.search import search
from solver.targets.registry import TARGETS
from tests.solver.every_plan import Pipeline, _most, makespan
from tests.solver.targets.expressible import interleaved_fastest, kept, model, whole
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


def in_advance(costs: PipelineCosts) -> float:
    """MindSpeed's --recompute-in-advance: a layer to each chunk, all but the last one run again
    before their backward, without waiting for the gradient."""
    stages = DEVICES * CHUNKS
    if len(costs.sequence) - 2 != stages or costs.micro_batches % DEVICES:
        return math.inf
    pipeline = Pipeline("1f1b", DEVICES, CHUNKS, stalls=True)
    orders = pipeline.orders(costs.micro_batches)
    blocks = [[costs.blocks[kind]] for kind in costs.sequence[1:-1]]
    blocks[0].insert(0, costs.blocks[costs.sequence[0]])
    blocks[-1].append(costs.blocks[costs.sequence[-1]])
    done = [[whole(block) for block in here] for here in blocks[:-1]]
    done.append([kept(block) for block in blocks[-1]])
    ways = {
        stage: (0.0, sum(d[1] for d in here), sum(d[0] for d in here), sum(d[2] for d in here))
        for stage, here in enumerate(done)
    }
    for device, order in enumerate(orders):
        mine = [stage for stage in range(stages) if pipeline.device(stage) == device]
        states = sum(block.states.total for stage in mine for block in blocks[stage])
        held = _most(order, {stage: ways[stage] for stage in mine}, [0.0] * stages, False)
        if states + held > costs.capacity_bytes * (1 + 1e-12):
            return math.inf
    times = {
        "F": [sum(block.forward_seconds for block in here) for here in blocks],
        "B": [sum(block.backward_seconds for block in here) for here in blocks],
        "R": [ways[stage][1] for stage in range(stages)],
    }
    return makespan(pipeline, orders, times, costs.send_seconds)


@pytest.mark.parametrize("seed", range(24))
def test_recompute_in_advance_is_planned_where_it_is_fastest(seed: int) -> None:
    """Under its own setting alone: the plan is the twin's, and there is one where that fits."""
    costs = replace(interleaved_model(seed), micro_batches=2 * DEVICES)
    expected = in_advance(costs)
    layout = Layout(1, DEVICES, 1, 1, 1, CHUNKS, 1, False, 0, "1f1b")
    regimes = [one for one in TARGETS["mindspeed"].regimes(costs, layout) if one.ahead]
    if len(costs.sequence) - 2 != DEVICES * CHUNKS:
        assert not regimes
        return
    outcome = search(
        listed([layout], [costs.micro_batches]),
        lambda _: costs,
        lambda _, __: regimes,
        relative_gap=0.0,
        time_limit_seconds=60.0,
    )
    assert (outcome.found is None) == math.isinf(expected)
    if outcome.found is not None:
        assert outcome.found.partition.makespan == pytest.approx(expected, rel=1e-9)
        assert dict(outcome.found.regime.setting)["recompute_in_advance"] is True


@pytest.mark.parametrize("name", sorted(set(INTERLEAVING) - {SAME_AS_MEGATRON}))
def test_no_interleaved_plan_that_can_be_told_is_faster(name: str) -> None:
    feasible, seeds = 0, range(SEEDS.get(name, 8))
    for seed in seeds:
        costs = interleaved_model(seed)
        splits = splits_of(name, costs, DEVICES * CHUNKS)
        if name == "colossalai":
            splits = even_with_the_rest_in_the_middle(costs)
        best = interleaved_fastest(costs, DEVICES, CHUNKS, settings_of(name, costs), splits)
        if name == "mindspeed":
            best = min(best, in_advance(costs))
        outcome = found(name, costs, DEVICES, virtual_stages=CHUNKS)
        if outcome.found is None:
            assert math.isinf(best), seed
            continue
        assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-7), seed
        assert outcome.lower_bound <= best * (1 + 1e-9), seed
        assert outcome.lower_bound >= best * (1 - 1e-6), seed
        feasible += 1
    assert feasible > len(seeds) / 3
