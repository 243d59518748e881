"""Partitions under a framework's policy: the best split, each stage doing what the policy says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from solver.costs.pipeline import Block, Module, Op, PipelineCosts, States
from solver.errors import BadRequest
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import least_memory_menu, policy_menu
from solver.partition.solve import PartitionProblem
from solver.partition.stages import decided_stages, stages_at
from solver.request import Policy, Recompute
from solver.schedules import OneForwardOneBackward
from tests.solver import exhaustive
from tests.solver.partition.samples import pipeline

LAYER = Block(
    name="layer",
    ops=(
        Op("mixed", ("x",), 1.0, 2.0, 4.0, backward_reads=("x", "mixed")),
        Op("out", ("mixed",), 2.0, 3.0, 6.0, backward_reads=("mixed", "out")),
    ),
    input_bytes=1.0,
    states=States(weights=5.0),
    modules=(Module("core_attn", ("mixed",)),),
    rerun_seconds=3.5,
)
"""Keeps 11 bytes at most, 1 at least; then 10 are rebuilt."""

HEAD = Block(
    name="head",
    ops=(Op("logits", ("x",), 1.0, 1.0, 8.0, backward_reads=("logits",)),),
    input_bytes=2.0,
    states=States(weights=3.0),
    checkpointable=False,
)

COSTS = PipelineCosts((LAYER, HEAD), (0, 0, 0, 0, 0, 1), micro_batches=3, capacity_bytes=1e9)


def parts(policy: Policy, count: int, **more: object) -> list[tuple[str, int, float, float]]:
    """(block, count, seconds per block, bytes kept per micro-batch) on one stage with the head."""
    menu = policy_menu(COSTS, Recompute.model_validate({"policy": policy, **more}))
    mix = menu.cheapest((count, 1), 0.0, 1)
    assert mix is not None
    return [
        (COSTS.blocks[part.kind].name, part.count, part.choice.seconds, part.kept_bytes)
        for part in menu.parts(mix)
    ]


def test_none_keeps_everything() -> None:
    assert parts(Policy.NONE, 4) == [("layer", 4, 0.0, 44.0), ("head", 1, 0.0, 10.0)]


def test_full_runs_every_layer_again_and_leaves_the_head_alone() -> None:
    assert parts(Policy.FULL, 4) == [("layer", 4, 3.5, 4.0), ("head", 1, 0.0, 10.0)]


def test_selective_drops_attention_unless_told_otherwise() -> None:
    expected = [("layer", 4, 1.0, 28.0), ("head", 1, 0.0, 10.0)]
    assert parts(Policy.SELECTIVE, 4) == expected
    assert parts(Policy.SELECTIVE, 4, modules=["core_attn"]) == expected


def test_block_runs_the_first_layers_of_the_stage_again() -> None:
    assert parts(Policy.BLOCK, 4, num_layers=3) == [
        ("layer", 3, 3.5, 3.0),
        ("layer", 1, 0.0, 11.0),
        ("head", 1, 0.0, 10.0),
    ]


@pytest.mark.parametrize("layers", [4, 5, 100])
def test_block_with_more_layers_than_the_stage_holds_is_full(layers: int) -> None:
    assert parts(Policy.BLOCK, 4, num_layers=layers) == parts(Policy.FULL, 4)


def test_block_of_no_layers_is_none() -> None:
    assert parts(Policy.BLOCK, 4, num_layers=0) == parts(Policy.NONE, 4)


@pytest.mark.parametrize(("group", "kept"), [(1, 5.0), (2, 3.0), (3, 2.0), (5, 1.0), (9, 1.0)])
def test_uniform_keeps_one_input_per_group(group: int, kept: float) -> None:
    assert parts(Policy.UNIFORM, 5, num_layers=group) == [
        ("layer", 5, 3.5, kept),
        ("head", 1, 0.0, 10.0),
    ]


def test_uniform_rebuilds_a_whole_group_with_its_inner_inputs() -> None:
    menu = policy_menu(COSTS, Recompute(policy=Policy.UNIFORM, num_layers=3))
    mix = menu.cheapest((5, 0), 0.0, 1)
    assert mix is not None
    assert [part.recompute_bytes for part in menu.parts(mix)] == [3 * 10.0 + 2 * 1.0]


def test_least_memory_recomputes_the_head_too() -> None:
    menu = least_memory_menu(COSTS)
    mix = menu.cheapest((1, 1), 0.0, 1)
    assert mix is not None
    assert sorted(part.kept_bytes for part in menu.parts(mix)) == [1.0, 2.0]


POLICIES = [
    Recompute(policy=Policy.NONE),
    Recompute(policy=Policy.FULL),
    Recompute(policy=Policy.BLOCK, num_layers=1),
    Recompute(policy=Policy.UNIFORM, num_layers=2),
]


def by_hand(block: Block, recompute: Recompute, count: int, before: int) -> tuple[float, ...]:
    """Seconds, kept bytes and buffer of ``count`` equal blocks after ``before`` others."""
    kept_all = max(exhaustive.block_choices(block))
    kept_none = next(c for c in exhaustive.block_choices(block) if c[0] == block.input_bytes)
    if not count:
        return 0.0, 0.0, 0.0
    if recompute.policy is Policy.UNIFORM:
        group = recompute.num_layers or 1
        size = min(group, count)
        kept = math.ceil(count / group) * block.input_bytes
        return count * kept_none[1], kept, size * kept_none[2] + (size - 1) * block.input_bytes
    dropped = {
        Policy.NONE: 0,
        Policy.FULL: count,
        Policy.BLOCK: max(min((recompute.num_layers or 0) - before, count), 0),
    }[recompute.policy]
    kept = dropped * kept_none[0] + (count - dropped) * kept_all[0]
    return dropped * kept_none[1], kept, kept_none[2] if dropped else 0.0


@pytest.mark.parametrize("recompute", POLICIES, ids=lambda r: str(r.policy.value))
@pytest.mark.parametrize("seed", range(25))
def test_the_best_split_under_a_policy_equals_trying_all(seed: int, recompute: Recompute) -> None:
    costs, schedule = pipeline(seed)
    costs = replace(costs, sequence=tuple(sorted(costs.sequence)))
    expected = math.inf
    length, stages, n = len(costs.sequence), schedule.stages, costs.micro_batches
    for cuts in itertools.combinations(range(1, length), stages - 1):
        forward, backward, fits = [], [], True
        for stage, (start, stop) in enumerate(itertools.pairwise((0, *cuts, length))):
            run = costs.sequence[start:stop]
            decided, before = [], 0
            for kind in sorted(set(run)):
                count = run.count(kind)
                decided.append(by_hand(costs.blocks[kind], recompute, count, before))
                before += count
            flight = exhaustive.in_flight(schedule.name, stage, stages, n)
            used = sum(costs.blocks[kind].states.total for kind in run)
            used += flight * sum(kept for _, kept, _ in decided)
            used += max(buffer for _, _, buffer in decided)
            fits &= used <= costs.capacity_bytes
            forward.append(sum(costs.blocks[kind].forward_seconds for kind in run))
            backward.append(sum(costs.blocks[kind].backward_seconds for kind in run))
            backward[-1] += sum(seconds for seconds, _, _ in decided)
        if fits:
            time = exhaustive.makespan(schedule.name, forward, backward, n, costs.send_seconds)
            expected = min(expected, time)

    found = PartitionProblem(costs, policy_menu(costs, recompute), schedule).solve()

    if isinstance(found, Infeasible):
        assert expected == math.inf
    else:
        assert isinstance(found, Partition)
        assert found.makespan == pytest.approx(expected, rel=1e-9)


def test_decided_stages_say_what_the_partition_decided() -> None:
    schedule = OneForwardOneBackward(2, 3)
    menu = policy_menu(COSTS, Recompute(policy=Policy.FULL))
    found = PartitionProblem(COSTS, menu, schedule).solve()
    assert isinstance(found, Partition)
    stages = decided_stages(found, menu)
    assert [(stage.start, stage.stop) for stage in stages] == list(found.cuts)
    assert [sum(part.count for part in stage.parts) for stage in stages] == [
        stop - start for start, stop in found.cuts
    ]
    assert stages == stages_at(COSTS, menu, schedule, found.cuts)


def test_stages_that_cannot_fit_are_not_made() -> None:
    tight = replace(COSTS, capacity_bytes=10.0)
    menu = policy_menu(tight, Recompute())
    assert stages_at(tight, menu, OneForwardOneBackward(2, 3), ((0, 3), (3, 6))) is None


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"policy": "block"}, "recompute.num_layers"),
        ({"policy": "uniform", "num_layers": 0}, "recompute.num_layers"),
        ({"policy": "selective", "modules": ["core_attn", "nose"]}, "recompute.modules[1]"),
        ({"policy": "adapipe"}, "recompute.policy"),
    ],
)
def test_a_policy_that_lacks_something_names_the_field(
    asked: dict[str, object], field: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        policy_menu(COSTS, Recompute.model_validate(asked))
    assert caught.value.field == field
    assert caught.value.hint
