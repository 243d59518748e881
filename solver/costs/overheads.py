"""What comes on top of a block's own kernels: host launches, moving weights, stage boundaries."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from solver.cluster.collectives import all_gather, all_reduce, reduce_scatter
from solver.costs.calibration import SoftwareEfficiency
from solver.costs.graph import ELEMENT, Graph
from solver.costs.pipeline import Account, Op, OpKind


def host_bound(
    ops: list[Op], software: SoftwareEfficiency, grouped_products: int = 0
) -> tuple[Op, ...]:
    """Ops of a block that cannot run faster than the host launches them.

    The host runs ahead of the device, so the bound holds for the block as a whole. Near the bound
    the device waits for some launches and the host for some kernels: a smooth maximum.

    Args:
        ops: Of the block.
        software: What launches them.
        grouped_products: Products of single experts in its forward, each a launch of its own; its
            backward has twice as many.
    """
    host = software.host_seconds * len(ops)
    experts = software.grouped_launch_seconds * grouped_products
    sharpness = software.host_sharpness
    forward = _slower(sum(op.forward_seconds for op in ops), host + experts, sharpness)
    backward = _slower(sum(op.backward_seconds for op in ops), host + 2 * experts, sharpness)
    if forward == backward == 1.0:
        return tuple(ops)
    return tuple(
        replace(
            op,
            forward_seconds=op.forward_seconds * forward,
            backward_seconds=op.backward_seconds * backward,
        )
        for op in ops
    )


def _slower(device: float, host: float, sharpness: float) -> float:
    """By how much ``host`` seconds of launches stretch ``device`` seconds of kernels."""
    if device == 0.0:
        return 1.0
    return math.pow(1.0 + math.pow(host / device, sharpness), 1.0 / sharpness)


def sharded_weights(
    graph: Graph, ops: tuple[Op, ...], parameters: float
) -> tuple[tuple[Op, ...], float]:
    """ZeRO 2's and 3's movement of a block's weights and gradients, and the bytes held for it.

    Stage 3 gathers the weights for forward and again for backward, stage 2 for forward only; both
    scatter the gradients after backward (Zhao et al. 2023, PyTorch FSDP, section 3). The next
    block's gather runs under this one's compute. Two blocks' weights and one's gradients are held
    unsharded meanwhile.
    """
    shard, links = graph.shard, graph.machine.links
    if not shard.runs_sharded or shard.data.size == 1:
        return (), 0.0
    size = ELEMENT * parameters
    shards = shard.shards(shard.data)
    gather = all_gather(size, shards, links)
    scatter = reduce_scatter(size, shards, links)
    scatter += all_reduce(size / shards.size, shard.copies(shard.data), links)
    forward = sum(op.forward_seconds for op in ops)
    backward = sum(op.backward_seconds for op in ops)
    again = gather if shard.zero_stage == 3 else 0.0
    moved = Op(
        "sharded_weights",
        (),
        graph.exposed(gather, forward),
        graph.exposed(again + scatter, backward),
        0.0,
        (),
        OpKind.COMMUNICATION,
        Account.DATA_PARALLEL,
        window_seconds=max(0.0, again + scatter - backward),
    )
    held = 3 * size if shard.zero_stage == 3 else size
    return (moved,), held


@lru_cache(maxsize=1024)
def stage_boundary(seconds: float) -> tuple[Op, ...]:
    """One layer's share of the sends and receives that keep its stage from computing.

    Each pass of a stage receives a tensor and sends one on. What of that is not hidden adds to the
    stage's own time; it is spread over the layers, of which each stage holds about as many.
    Nothing is recomputed in such a share: the whole of it lies between stages.
    """
    if seconds == 0.0:
        return ()
    op = Op(
        "stage_boundary",
        (),
        seconds,
        seconds,
        0.0,
        (),
        OpKind.COMMUNICATION,
        Account.PIPELINE_PARALLEL,
        window_seconds=0.0,
    )
    return (op,)


def largest_gradients(ops: Iterable[Op]) -> float:
    """The most gradient bytes that one op's backward holds: those of its output and its inputs."""
    sizes: dict[str, float] = {}
    largest = 0.0
    for op in ops:
        largest = max(largest, op.output_bytes + sum(sizes.get(name, 0.0) for name in op.inputs))
        sizes[op.name] = op.output_bytes
    return largest
