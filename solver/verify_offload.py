"""The independent check of activations in host memory: bytes, link, host and staging, once more.

Written from the definition (``solver.costs.offloading``) and sharing nothing with it.
"""

from __future__ import annotations

import math

from solver.costs.pipeline import Block, PipelineCosts
from solver.errors import SolverFailed
from solver.plan import BlockRecompute, Stage

TOLERANCE = 1e-9
"""Relative difference that rounding may cause."""


def offloaded_bytes(costs: PipelineCosts, block: Block, entry: BlockRecompute) -> float:
    """What a block has in host memory per micro-batch, of what it would keep.

    Raises:
        SolverFailed: It offloads what it does not keep, or more than the link moves in time.
    """
    if not entry.offloaded:
        return 0.0
    if costs.host is None or not costs.offload_bytes:
        raise SolverFailed(f"Block '{block.name}' offloads in a run that does not.")
    sizes = {"x": block.input_bytes}
    for op in block.ops:
        if op.name not in entry.recomputed and any(op.name in o.backward_reads for o in block.ops):
            sizes[op.name] = op.output_bytes
    total = 0.0
    for name, share in entry.offloaded.items():
        if name not in sizes or not 0.0 < share <= 1.0:
            raise SolverFailed(f"Block '{block.name}' offloads '{name}', which it does not keep.")
        total += share * sizes[name]
    shortest = min(_compute_seconds(block))
    if not block.checkpointable or total > shortest * costs.host.bytes_per_second * (1 + TOLERANCE):
        raise SolverFailed(f"Block '{block.name}' offloads more than its compute hides.")
    return total


def check_times(costs: PipelineCosts, stage: Stage) -> None:
    """That what is made early, or ahead of the gradient, finds its sources on the device.

    Raises:
        SolverFailed: A stage ahead offloads, or one that places recompute in windows of following
            blocks on devices that have no room for a block more.
    """
    away = [entry for entry in stage.recompute if entry.offloaded]
    if away and stage.recomputes_ahead:
        raise SolverFailed(f"Stage {stage.index} offloads what it needs ahead of the gradient.")
    early = any(placed.following for entry in away for placed in entry.placed)
    if away and costs.staged_blocks < (4 if early else 3):
        raise SolverFailed(f"Stage {stage.index} has no room for blocks on their way.")


def check_hosts(
    costs: PipelineCosts, orders: list[list[tuple[str, int, int]]], away: list[float], depth: int
) -> None:
    """That staging is as large as it must be, and that hosts have room.

    Args:
        costs: The costs of the answer.
        orders: Every device's tasks.
        away: What a micro-batch of each stage has in host memory.
        depth: Stages of one copy of the model.

    Raises:
        SolverFailed: If either is not so.
    """
    most_in_flight = 0
    for device, order in enumerate(orders):
        here, alive = costs.at(device), dict.fromkeys({stage for _, stage, _ in order}, 0)
        peak = 0.0
        for work, stage, _ in order:
            alive[stage] += {"F": 1, "B": -1}.get(work, 0)
            most_in_flight = max(most_in_flight, alive[stage])
            peak = max(peak, sum(count * away[at] for at, count in alive.items()))
        if here.host is not None and peak > here.host.memory_bytes * (1 + TOLERANCE):
            raise SolverFailed(f"Device {device} has {peak:g} bytes in its host's memory.")
    for device in range(len(orders)):
        here = costs.at(device)
        staging = 0.0
        if here.offload_bytes:
            staging = _staging(here, most_in_flight, len(away), depth, len(orders))
        if abs(staging - here.staging_bytes) > TOLERANCE * max(staging, here.staging_bytes):
            raise SolverFailed(f"Device {device} stages {staging!r} bytes by the check.")


def _staging(costs: PipelineCosts, in_flight: int, stages: int, depth: int, devices: int) -> float:
    """Three of the largest budgets, or with windows of following blocks four."""
    if costs.host is None:
        return 0.0
    layers = [costs.blocks[kind] for kind in costs.sequence if costs.blocks[kind].checkpointable]
    largest = total = 0.0
    for block in layers:
        read = {name for op in block.ops for name in op.backward_reads}
        held = block.input_bytes
        for op in block.ops:
            held += op.output_bytes if op.name in read else 0.0
        passes = min(_compute_seconds(block)) * costs.host.bytes_per_second
        largest = max(largest, min(held, passes))
        total += min(held, passes)
    if in_flight * (stages / depth) * total > costs.host.memory_bytes:
        most = max(math.ceil(len(layers) * 5 / (4 * depth)), math.ceil(len(layers) / depth) + 1)
        here = in_flight * most * (stages / devices)
        largest = min(largest, costs.host.memory_bytes / here)
    return float(costs.staged_blocks) * largest


def _compute_seconds(block: Block) -> tuple[float, float]:
    forward = backward = 0.0
    for op in block.ops:
        if op.kind.value == "compute":
            forward += op.forward_seconds
            backward += op.backward_seconds
    return forward, backward
