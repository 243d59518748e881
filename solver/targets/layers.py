"""What frameworks call a layer, among the blocks of a model: not its ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Index
from solver.partition.regime import Admits, Bools

EMBEDDING, HEAD, PREDICTION = "embedding", "head", "prediction"
"""Names of the blocks that are no layers: before the first, after the last, and multi-token
prediction between the last layer and the head."""

ENDS = (EMBEDDING, HEAD, PREDICTION)


def framed(costs: PipelineCosts) -> PipelineCosts:
    """The costs with the model's ends left alone by every recompute setting, as frameworks do.

    A cost model says so itself; a profile only by the names of its blocks.
    """
    blocks = [
        replace(b, checkpointable=b.checkpointable and b.name not in ENDS) for b in costs.blocks
    ]
    return replace(costs, blocks=tuple(blocks))


def layer_kinds(costs: PipelineCosts) -> tuple[int, ...]:
    """The kinds of block that are layers of this model."""
    used = frozenset(costs.sequence)
    blocks = enumerate(costs.blocks)
    return tuple(kind for kind, block in blocks if kind in used and block.name not in ENDS)


def layer_count(costs: PipelineCosts) -> int:
    """Layers of the model."""
    kinds = layer_kinds(costs)
    return sum(1 for kind in costs.sequence if kind in kinds)


def kinds_in_turn(costs: PipelineCosts) -> bool:
    """Whether kinds of layer come back after others, as where every second layer is another.

    The number of each kind on a stage then does not say which of them come first.
    """
    kinds = layer_kinds(costs)
    seen = [kind for kind in costs.sequence if kind in kinds]
    changes = sum(1 for a, b in pairwise(seen) if a != b)
    return changes >= len(set(seen))


def admits_layers(
    costs: PipelineCosts, *, head_alone: bool, embedding_alone: bool = False
) -> Admits:
    """A rule for what a stage may hold: a layer at least, or an end of the model where that may be.

    The prediction modules stay together.
    """
    layers = np.isin(np.arange(len(costs.blocks)), layer_kinds(costs))
    head = np.array([block.name == HEAD for block in costs.blocks])
    embedding = np.array([block.name == EMBEDDING for block in costs.blocks])
    prediction = np.array([block.name == PREDICTION for block in costs.blocks])
    modules = sum(1 for kind in costs.sequence if prediction[kind])

    def admits(counts: Index) -> Bools:
        holds = counts[:, layers].sum(axis=1) > 0
        if head_alone:
            holds |= counts[:, head].sum(axis=1) > 0
        if embedding_alone:
            holds |= counts[:, embedding].sum(axis=1) > 0
        together = counts[:, prediction].sum(axis=1)
        return np.asarray(holds & ((together == 0) | (together == modules)))

    return admits
