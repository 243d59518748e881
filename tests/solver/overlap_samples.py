"""Small random pipelines with windows: collectives between ops, memory that forces recompute."""

from __future__ import annotations

import random
from dataclasses import replace

from solver.costs.pipeline import Block, OpKind, Overlapping, PipelineCosts
from solver.schedules import Schedule, make_schedule
from tests.solver.random_costs import random_block, random_costs


def block_with_windows(rng: random.Random, name: str, ops: int, whole: bool) -> Block:
    """A random block in which collectives are frequent and last longer in backward."""
    block = random_block(rng, name, ops, whole)
    return replace(
        block,
        ops=tuple(
            replace(
                op,
                kind=OpKind.COMMUNICATION if rng.random() < 0.35 else OpKind.COMPUTE,
                backward_seconds=1.5 * op.backward_seconds,
            )
            for op in block.ops
        ),
    )


def pipeline_with_windows(
    seed: int, *, most_stages: int = 3, most_blocks: int = 5, most_ops: int = 3
) -> tuple[PipelineCosts, Schedule]:
    """A random pipeline whose blocks have windows, and 1F1B or GPipe."""
    rng = random.Random(seed)
    stages = rng.randint(1, most_stages)
    costs = random_costs(seed, stages, most_blocks=most_blocks, most_ops=most_ops)
    whole = rng.random() < 0.4
    blocks = []
    for block in costs.blocks:
        made = block_with_windows(rng, block.name, rng.randint(1, most_ops), whole)
        blocks.append(replace(made, states=block.states))
    costs = replace(
        costs,
        blocks=tuple(blocks),
        overlapping=Overlapping(rng.choice([1.0, 1.0, 1.25])),
    )
    schedule = make_schedule(rng.choice(["1f1b", "1f1b", "gpipe"]), stages, costs.micro_batches)
    return costs, schedule
