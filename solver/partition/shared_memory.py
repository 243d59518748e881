"""What the memory of devices that hold several stages asks of every plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Index
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule
from solver.schedules.moments import moments


def least_recompute(
    costs: PipelineCosts, frontiers: tuple[Frontier, ...], schedule: Schedule
) -> float:
    """Recompute seconds per micro-batch that all devices' memory together asks for."""
    alive = min(
        max(min(moment.alive) for moment in moments(schedule, device))
        for device in range(schedule.devices)
    )
    copies = schedule.stages // schedule.depth
    counts = [copies * costs.sequence.count(kind) for kind in range(len(costs.blocks))]
    states = sum(n * block.states.total for n, block in zip(counts, costs.blocks, strict=True))
    # All devices as one: their capacities add up, their reserved bytes as well. Buffers count
    # on the stage that acts only, so none is counted here.
    bare = FreeMenu(
        replace(costs, blocks=tuple(replace(block, working_bytes=0.0) for block in costs.blocks)),
        tuple(replace(front, rebuilt=np.zeros_like(front.rebuilt)) for front in frontiers),
    )
    others = (schedule.devices - 1) * (costs.capacity_bytes - costs.reserved_bytes)
    flight = np.array([max(alive, 1e-9)])
    return float(bare.bounds(np.array([counts]), np.array([states - others]), flight)[0])


def needed_bytes(
    costs: PipelineCosts,
    least: tuple[Frontier, ...],
    schedule: Schedule,
    device: int,
    counts: Index,
) -> float:
    """Bytes beside states that a device needs when its chunks keep the least.

    Args:
        costs: What each block costs.
        least: The one choice of every kind.
        schedule: Who shares a device, and when it is fullest.
        device: Which device.
        counts: Blocks of every kind per chunk, shape (chunks, kinds).
    """
    kept = counts @ np.array([front.kept[0] for front in least])
    peaks = [f.rebuilt[0] + b.working_bytes for f, b in zip(least, costs.blocks, strict=True)]
    buffers = np.where(counts > 0, np.array(peaks), 0.0).max(axis=1)
    places = {stage: i for i, stage in enumerate(schedule.stages_of(device))}
    waits = counts @ np.array([block.weight_held_bytes for block in costs.blocks])
    held = max(
        float(np.array(moment.alive) @ kept + np.array(moment.waiting) @ waits)
        + (0.0 if moment.acting is None else float(buffers[places[moment.acting]]))
        for moment in moments(schedule, device)
    )
    return held + costs.reserved_bytes
