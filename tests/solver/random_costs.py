"""Small random pipelines, from a seed: several kinds of block, tight memory, ties and zeros."""

from __future__ import annotations

import random
from dataclasses import replace

from solver.costs.pipeline import Block, Op, OpKind, PipelineCosts, States
from solver.recompute.choice import choice_keeping, keep_all


def random_block(rng: random.Random, name: str, ops: int, whole: bool) -> Block:
    """A block of random ops; ``whole`` numbers make ties likely."""

    def draw(high: float) -> float:
        return float(rng.randint(0, int(high))) if whole else rng.uniform(0, high)

    made: list[Op] = []
    for i in range(ops):
        names = ["x", *(op.name for op in made)]
        inputs = tuple(dict.fromkeys(rng.choice(names) for _ in range(rng.randint(1, 2))))
        reads = tuple(t for t in dict.fromkeys([*inputs, f"t{i}"]) if rng.random() < 0.7)
        kind = OpKind.COMMUNICATION if rng.random() < 0.2 else OpKind.COMPUTE
        made.append(Op(f"t{i}", inputs, draw(4), draw(6), draw(8), reads, kind))
    return Block(name, tuple(made), draw(4), States(weights=draw(10)))


def _with_weights(rng: random.Random, block: Block, whole: bool) -> Block:
    """The block with parts of its backward that may be run late, and what they wait with."""

    def late(op: Op) -> Op:
        seconds = rng.choice([0.0, 0.5, 1.0, rng.random()]) * op.backward_seconds
        held = rng.choice([0.0, rng.uniform(0, 6)])
        return replace(
            op,
            weight_seconds=float(int(seconds)) if whole else seconds,
            weight_held_bytes=float(int(held)) if whole else held,
        )

    return replace(block, ops=tuple(late(op) for op in block.ops))


def random_costs(
    seed: int,
    stages: int,
    *,
    most_blocks: int = 7,
    most_ops: int = 3,
    sends: bool = True,
    micro_batches: int | None = None,
    late_weights: bool = False,
) -> PipelineCosts:
    """A pipeline whose memory limit lies anywhere from impossible to ample.

    With ``late_weights`` a part of every backward makes gradients of weights.
    """
    rng = random.Random(seed)
    whole = rng.random() < 0.4
    kinds = rng.randint(1, 3)
    blocks = tuple(
        random_block(rng, f"kind{k}", rng.randint(1, most_ops), whole) for k in range(kinds)
    )
    if late_weights:
        blocks = tuple(_with_weights(random.Random(~seed), block, whole) for block in blocks)
    length = rng.randint(stages, max(stages, most_blocks))
    sequence = tuple(rng.randrange(kinds) for _ in range(length))
    if rng.random() < 0.6:
        sequence = tuple(sorted(sequence))
    n = rng.randint(1, 2 * stages + 2) if micro_batches is None else micro_batches
    per_block = [
        (
            block.states.total + choice_keeping(block, ()).kept_bytes,
            block.states.total + min(stages, n) * keep_all(block).kept_bytes,
        )
        for block in blocks
    ]
    least = sum(per_block[k][0] for k in sequence) / stages
    most = sum(per_block[k][1] for k in sequence)
    return PipelineCosts(
        blocks=blocks,
        sequence=sequence,
        micro_batches=n,
        capacity_bytes=max(least + (most - least) * rng.random() ** 2, 0.1),
        send_seconds=rng.choice([0.0, 0.0, 0.5, 2.0]) if sends else 0.0,
    )
