"""Blocks to decide about: one small enough to decide by hand, and random ones."""

from __future__ import annotations

import random

from solver.costs.pipeline import Block, Module, Op, States
from tests.solver.random_costs import random_block

ATTENTION = Block(
    name="attention",
    ops=(
        Op("norm", ("x",), 1.0, 2.0, 10.0, backward_reads=("x",)),
        Op("scores", ("norm",), 4.0, 8.0, 100.0, backward_reads=("norm", "scores")),
        Op("context", ("scores", "norm"), 3.0, 6.0, 20.0, backward_reads=("scores", "context")),
        Op("sum", ("x", "context"), 0.5, 0.5, 10.0),
    ),
    input_bytes=10.0,
    states=States(weights=7.0),
    modules=(Module("core_attn", ("scores",)), Module("layernorm", ("norm",))),
)
"""Needed: norm, scores, context. Nobody needs sum."""


def random_blocks(count: int, most_ops: int) -> list[Block]:
    """Random graphs of ops, from a seed; half of them with whole numbers, so that ties occur."""
    rng = random.Random(count * 100 + most_ops)
    return [
        random_block(rng, f"block{i}", rng.randint(1, most_ops), whole=i % 2 == 0)
        for i in range(count)
    ]
