"""For each framework: no plan that it can be told is faster than the one found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts import Layout, listed
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.partition.stages import decided_stages
from solver.request import Recompute
from solver.schedules import make_schedule
from solver.search.search import Outcome, search
from solver.targets.registry import TARGETS
from tests.solver.targets.expressible import (
    ACTIVATION,
    ATTENTION,
    NORM,
    Done,
    Setting,
    dropping,
    each,
    every_split,
    fastest,
    free_choice,
    in_groups,
    kept,
    model,
    whole,
)

SAME_AS_MEGATRON = "megatron-bridge"
SEEDS = {"pytorch": 8, "mindspeed": 16, "megatron-lm": 24}
"""Models that are tried, of the others 40."""


def found(
    name: str,
    costs: PipelineCosts,
    devices: int,
    schedule: str = "1f1b",
    virtual_stages: int = 1,
) -> Outcome:
    layout = Layout(1, devices, 1, 1, 1, virtual_stages, 1, False, 0, schedule)
    return search(
        listed([layout], [costs.micro_batches]),
        lambda _: costs,
        lambda asked, these: TARGETS[name].regimes(these, asked),
        relative_gap=0.0,
        time_limit_seconds=60.0,
    )


def megatron_settings(costs: PipelineCosts) -> list[Setting]:
    layers = len(costs.sequence) - 2
    norm, mlp = frozenset({NORM}), frozenset({ATTENTION, ACTIVATION})
    settings = [each(lambda _, block: kept(block))]
    settings += [each(modules(tensors)) for tensors in (norm, mlp, norm | mlp)]
    settings += [each(first(number, kept)) for number in range(1, layers + 1)]
    largest = 1 if has_two_kinds(costs) else layers
    return [*settings, *(in_groups(size, with_ends=False) for size in range(1, largest + 1))]


def torchtitan_settings(costs: PipelineCosts) -> list[Setting]:
    """All, nothing, all but the attention kernel, or every n-th layer of a stage."""
    settings = [each(lambda _, block: kept(block))]
    settings.append(each(lambda _, block: all_but(block, ATTENTION)))
    return [*settings, *(each(every(number)) for number in range(1, len(costs.sequence) - 1))]


def every(number: int) -> Callable[[int, Block], Done]:
    return lambda layer, block: kept(block) if (layer + 1) % number else whole(block)


def all_but(block: Block, saved: str) -> Done:
    """The whole forward again but for one op, whose output is kept, needed or not."""
    if not is_layer(block):
        return kept(block)
    again = [op for op in block.ops if op.name != saved]
    return (
        block.input_bytes + sum(op.output_bytes for op in block.ops if op.name == saved),
        sum(op.forward_seconds for op in again),
        sum(op.output_bytes for op in again),
    )


def mindspeed_settings(costs: PipelineCosts) -> list[Setting]:
    """Megatron's, and norms, activation functions or both alone and beside first layers."""
    settings = megatron_settings(costs)
    for names in ({NORM}, {ACTIVATION}, {NORM, ACTIVATION}):
        rest = partial(partly, names=frozenset(names))
        settings += [each(first(number, rest)) for number in range(len(costs.sequence) - 2)]
    return settings


def partly(block: Block, names: frozenset[str]) -> Done:
    return dropping(block, names) if is_layer(block) else kept(block)


def sections(block: Block) -> list[Done]:
    """All of a layer, its attention, its feed-forward, both, or nothing."""
    if not is_layer(block):
        return [kept(block)]
    chosen = ({ATTENTION}, {ACTIVATION}, {ATTENTION, ACTIVATION})
    return [kept(block), whole(block), *(dropping(block, frozenset(names)) for names in chosen)]


def has_two_kinds(costs: PipelineCosts) -> bool:
    return len({kind for kind in costs.sequence if is_layer(costs.blocks[kind])}) > 1


def modules(names: frozenset[str]) -> Callable[[int, Block], Done]:
    return lambda _, block: dropping(block, names) if is_layer(block) else kept(block)


def first(number: int, rest: Callable[[Block], Done]) -> Callable[[int, Block], Done]:
    return lambda layer, block: whole(block) if is_layer(block) and layer < number else rest(block)


def is_layer(block: Block) -> bool:
    return block.name.startswith("layer")


def full_or_not(block: Block) -> list[Done]:
    return [kept(block), whole(block)] if is_layer(block) else [kept(block)]


def any_tensors(block: Block) -> list[Done]:
    """Any subset of a layer's tensors."""
    names = [op.name for op in block.ops] if is_layer(block) else []
    sizes = range(len(names) + 1)
    subsets = itertools.chain.from_iterable(itertools.combinations(names, n) for n in sizes)
    return [dropping(block, frozenset(chosen)) for chosen in subsets]


def prefixes(costs: PipelineCosts) -> Setting:
    """Any number of first layers for every stage."""
    numbers = [each(first(number, kept)) for number in range(len(costs.sequence))]
    return lambda blocks: [choice for number in numbers for choice in number(blocks)]


def deepspeed_splits(costs: PipelineCosts, stages: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """What its three methods make of the list, from their own description."""
    length = len(costs.sequence)
    each_one, extra = divmod(length, stages)
    even = [each_one + (stage < extra) for stage in range(stages)]
    weights = [costs.blocks[k].states.weights for k in costs.sequence]
    layers = [float(is_layer(costs.blocks[k])) for k in costs.sequence]
    for edges in (
        [0, *itertools.accumulate(even)],
        reference_balanced(weights, stages),
        reference_balanced(layers, stages),
    ):
        if all(a < b for a, b in itertools.pairwise(edges)):
            yield tuple(itertools.pairwise(edges))


def reference_balanced(weights: list[float], parts: int) -> list[int]:
    """The spread of part weights, minimised greedily part by part, of equals the last start."""
    if len(weights) <= parts:
        return [min(part, len(weights)) for part in range(parts + 1)]
    known: dict[tuple[int, int], tuple[float, float, list[int]]] = {(0, 0): (0.0, math.inf, [0])}
    for part in range(1, parts + 1):
        for stop in range(part, len(weights) + 1):
            best: tuple[float, tuple[float, float, list[int]]] | None = None
            for start in range(stop):
                if (part - 1, start) not in known:
                    continue
                high, low, edges = known[part - 1, start]
                weight = sum(weights[:stop]) - sum(weights[:start])
                high, low = max(high, weight), min(low, weight)
                if best is None or high - low <= best[0] + 1e-12:
                    best = (high - low, (high, low, [*edges, stop]))
            if best is not None:
                known[part, stop] = best[1]
    return known[parts, len(weights)][2]


def settings_of(name: str, costs: PipelineCosts) -> list[Setting]:
    """What the framework can be told to recompute."""
    nothing: Setting = each(lambda _, block: kept(block))
    match name:
        case "megatron-lm" | "megatron-bridge":
            return megatron_settings(costs)
        case "mindspeed":
            return mindspeed_settings(costs)
        case "torchtitan":
            return torchtitan_settings(costs)
        case "mindformers":
            return [free_choice(sections)]
        case "galvatron":
            return [free_choice(full_or_not)]
        case "pytorch":
            return [free_choice(any_tensors)]
        case "colossalai" | "mindformers-graph":
            return [prefixes(costs)]
        case "deepspeed":
            most = 1 if has_two_kinds(costs) else len(costs.sequence) - 2
            return [nothing, *(in_groups(size, with_ends=True) for size in range(1, most + 1))]
        case _:
            raise AssertionError(name)


def splits_of(
    name: str, costs: PipelineCosts, stages: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """The splits that the framework can be given, over stages with a device each."""
    if name == "deepspeed":
        return deepspeed_splits(costs, stages)
    if name == "pytorch":
        edges = itertools.combinations(range(1, len(costs.sequence)), stages - 1)
        return (tuple(itertools.pairwise((0, *cut, len(costs.sequence)))) for cut in edges)
    embedding = name == "mindformers-graph"
    alone = name in HEAD_ALONE or embedding
    return every_split(costs, stages, head_alone=alone, embedding_alone=embedding)


HEAD_ALONE = ("megatron-lm", "megatron-bridge", "mindspeed", "torchtitan")
RUN_1F1B = tuple(name for name in TARGETS if name != "deepspeed")
"""DeepSpeed has splits of its own."""


def test_megatron_bridge_is_told_what_megatron_is() -> None:
    assert type(TARGETS[SAME_AS_MEGATRON]).regimes is type(TARGETS["megatron-lm"]).regimes


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {SAME_AS_MEGATRON}))
def test_no_plan_that_can_be_told_is_faster(name: str) -> None:
    feasible = 0
    seeds = range(SEEDS.get(name, 40))
    for seed in seeds:
        stages = 2 + seed % 2
        schedule = "gpipe" if seed % 4 == 3 and "gpipe" in TARGETS[name].schedules else "1f1b"
        costs = model(seed, stages, kinds=1 + seed % 3 // 2)
        outcome = found(name, costs, stages, schedule)
        splits = splits_of(name, costs, stages)
        best = fastest(costs, schedule, stages, settings_of(name, costs), splits)
        if outcome.found is None:
            assert math.isinf(best), seed
            continue
        assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-9), seed
        assert outcome.lower_bound == pytest.approx(best, rel=1e-9), seed
        assert len(decided_stages(outcome.found.partition, outcome.found.menu)) == stages
        feasible += 1
    assert feasible > len(seeds) / 3


def test_a_framework_is_never_faster_than_a_free_plan() -> None:
    for seed in range(4):
        costs = model(seed, 2)
        schedule = make_schedule("1f1b", 2, costs.micro_batches)
        free = PartitionProblem(costs, policy_menu(costs, Recompute()), schedule).solve()
        for name in RUN_1F1B:
            restricted = found(name, costs, 2)
            if restricted.found is not None:
                assert isinstance(free, Partition)
                assert restricted.found.partition.makespan >= free.makespan * (1 - 1e-9)
