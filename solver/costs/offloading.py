"""Activations in host memory: how many bytes of a block may wait there at no cost in time.

A tensor that is offloaded leaves the device once its block's forward has made it and comes back
before its block's backward. Exactly:

- The link is used while the block's compute ops run, and left to collectives while they run: what a
  block offloads must pass it within its compute time, in forward and in backward.
- Of a block's kept bytes, its input included, up to that budget wait in host memory, whole tensors
  or parts of one. They are back before the block's backward, for whatever reads them.
- On the device they exist while their block runs and one block longer, on their way out or in. So a
  run that offloads has room for three such budgets of its largest block on every device: one at
  work, one on its way in, one of another micro-batch on its way out.
- Where recompute may stand in a window of the following block, what it is made from is back before
  that block's backward, so that there is room for four: one more is ready.
- A stage that recomputes ahead of the gradient offloads nothing, for it needs everything at once.
- Where a device's share of the host's memory is less than all layers could fill with all
  micro-batches that a stage has in flight at most, a stage holds no more than a quarter above its
  even number of layers, and each layer has an equal part of the memory for each micro-batch.

Whether blocks offload at all is one choice for the whole run: the room on the devices is not free.
"""

from __future__ import annotations

import math
from dataclasses import replace

from solver.costs.pipeline import Block, Host, OpKind, PipelineCosts
from solver.schedules import Schedule

STAGED_BLOCKS = 3
"""Blocks whose budgets a device has room for: at work, on the way in, on the way out."""


def offloading(
    costs: PipelineCosts, schedule: Schedule, *, windows: bool = False
) -> PipelineCosts | None:
    """The costs of a run that offloads; None if its devices have no host, or nothing can leave.

    ``windows``: recompute may stand in windows of the following block.
    """
    staged = STAGED_BLOCKS + windows
    devices = [_on_one(one, schedule, staged) for one in costs.devices]
    if any(one is None for one in devices):
        return None
    found = _on_one(costs, schedule, staged)
    if found is None:
        return None
    on_each = tuple(one for one in devices if one is not None)
    limited = [one.offload_layers for one in (found, *on_each) if one.offload_layers]
    return replace(found, devices=on_each, offload_layers=max(limited, default=0))


def _on_one(costs: PipelineCosts, schedule: Schedule, staged: int) -> PipelineCosts | None:
    """The costs on one kind of device."""
    if costs.host is None:
        return None
    hidden = [hidden_bytes(block, costs.host) for block in costs.blocks]
    in_flight = max(schedule.in_flight(stage) for stage in range(schedule.stages))
    copies = schedule.stages // schedule.depth
    part, layers = math.inf, 0
    if in_flight * copies * sum(hidden[k] for k in costs.sequence) > costs.host.memory_bytes:
        layers = most_layers(costs, schedule.depth)
        on_device = layers * (schedule.stages // schedule.devices)
        part = costs.host.memory_bytes / (in_flight * on_device)
    budgets = tuple(min(bytes_, part) for bytes_ in hidden)
    staging = staged * max((budgets[kind] for kind in costs.sequence), default=0.0)
    if staging <= 0:
        return None
    return replace(
        costs,
        offload_bytes=budgets,
        offload_layers=layers,
        staging_bytes=staging,
        staged_blocks=staged,
        reserved_bytes=costs.reserved_bytes + staging,
    )


def most_layers(costs: PipelineCosts, stages: int) -> int:
    """A quarter more layers than a stage of an even split has, and one more at least."""
    layers = sum(costs.blocks[kind].checkpointable for kind in costs.sequence)
    return max(-(-5 * layers // (4 * stages)), -(-layers // stages) + 1)


def hidden_bytes(block: Block, host: Host) -> float:
    """Bytes of a block that pass the link to the host under its own compute, either way.

    No more than its input and all that its backward needs. Blocks that frameworks do not touch, the
    embedding and the head, offload nothing.
    """
    if not block.checkpointable:
        return 0.0
    compute = [op for op in block.ops if op.kind is OpKind.COMPUTE]
    seconds = min(
        sum(op.forward_seconds for op in compute), sum(op.backward_seconds for op in compute)
    )
    needed = {name for op in block.ops for name in op.backward_reads} - {"x"}
    held = block.input_bytes + sum(op.output_bytes for op in block.ops if op.name in needed)
    return min(seconds * host.bytes_per_second, held)
