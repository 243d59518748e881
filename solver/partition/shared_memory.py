"""What the memory of devices that hold several stages asks of every plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.free_menu import FreeMenu
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
