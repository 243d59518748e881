"""SAPP's program against every count of layers and types."""

from __future__ import annotations

import itertools
import random

import pytest

from solver.baselines.sapp import sapp
from solver.costs.pipeline import Block, Op, PipelineCosts, States
from solver.recompute.choice import Choice
from solver.recompute.frontier import Frontier, frontier_of
from solver.schedules import OneForwardOneBackward

LAYERS, STAGES = 5, 3


def case(seed: int) -> tuple[PipelineCosts, tuple[Frontier, ...]]:
    """A head, five layers, a tail, two recompute types."""
    rng = random.Random(seed)

    def block(name: str) -> Block:
        op = Op(name, ("x",), rng.uniform(1, 3), rng.uniform(2, 6), 0.0, ("x",))
        return Block(name, (op,), 0.0, States(weights=rng.uniform(1, 4)))

    costs = PipelineCosts(
        blocks=(block("head"), block("layer"), block("tail")),
        sequence=(0, *[1] * LAYERS, 2),
        micro_batches=rng.randint(3, 8),
        capacity_bytes=rng.uniform(15, 40),
        send_seconds=0.0,
    )
    nothing = frontier_of([Choice(0.0, 0.0, 0.0, ())])
    layer = frontier_of([Choice(4.0, 0.0, 0.0, ()), Choice(1.0, rng.uniform(0.5, 3), 0.0, ("x",))])
    return costs, (nothing, layer, nothing)


def objective(costs: PipelineCosts, layer: Frontier, counts: list[tuple[int, int]]) -> float | None:
    """The program's objective of (layers dropped, layers kept) per stage; None if it is no plan."""
    total, slowest = 0.0, 0.0
    for stage, (dropped, kept) in enumerate(counts):
        blocks = [costs.blocks[1]] * (dropped + kept)
        blocks += [costs.blocks[0]] * (stage == 0) + [costs.blocks[2]] * (stage == STAGES - 1)
        held = dropped * layer.kept[0] + kept * layer.kept[1]
        states = sum(block.states.total for block in blocks)
        if not blocks or states + (STAGES - stage) * held > costs.capacity_bytes:
            return None
        if dropped + kept == 0 and 0 < stage < STAGES - 1:
            return None
        seconds = sum(block.forward_seconds + block.backward_seconds for block in blocks)
        seconds += dropped * layer.seconds[0]
        total, slowest = total + seconds, max(slowest, seconds)
    return float(total + (costs.micro_batches - 1) * slowest)


@pytest.mark.parametrize("seed", range(12))
def test_the_program_finds_the_least_of_its_objective(seed: int) -> None:
    costs, frontiers = case(seed)
    schedule = OneForwardOneBackward(STAGES, costs.micro_batches)
    every = [
        value
        for flat in itertools.product(range(LAYERS + 1), repeat=2 * STAGES)
        if sum(flat) == LAYERS
        and (value := objective(costs, frontiers[1], list(zip(flat[::2], flat[1::2], strict=True))))
        is not None
    ]
    found = sapp(costs, frontiers, schedule, 20.0)
    if not every:
        assert found is None
        return
    assert found is not None
    taken = [
        tuple(sum(n for kind, c, n in part if (kind, c) == (1, at)) for at in range(2))
        for part in found.parts
    ]
    assert objective(costs, frontiers[1], taken) == pytest.approx(min(every), rel=1e-6)


def test_several_kinds_of_layer_are_refused() -> None:
    costs, frontiers = case(0)
    with pytest.raises(ValueError, match="one kind"):
        sapp(
            PipelineCosts(
                blocks=costs.blocks,
                sequence=(0, 1, 2, 1, 2),
                micro_batches=4,
                capacity_bytes=10.0,
                send_seconds=0.0,
            ),
            frontiers,
            OneForwardOneBackward(2, 4),
        )
