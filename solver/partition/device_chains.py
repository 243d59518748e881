"""Chains of schedules whose stages share devices: each device's own work, and the way to and fro.

A device begins when the first micro-batch has come down to its first stage, and then runs all of
its tasks; where the last of them is a backward, that still has to go back to the first stage.
"""

from __future__ import annotations

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Index
from solver.schedules import Path, Schedule, Work


def device_chains(schedule: Schedule) -> list[Path]:
    """One path per device; its update of the weights is part of it."""
    return [_chain(schedule, device) for device in range(schedule.devices)]


def _chain(schedule: Schedule, device: int) -> Path:
    order = schedule.order(device)
    counts = np.zeros((len(Work), schedule.stages), dtype=np.int64)
    for stage in schedule.stages_of(device):
        counts[list(schedule.work), stage] = schedule.passes
    first_stage, (last_work, last_stage) = int(order[0, 1]), order[-1, :2].tolist()
    ahead = _before(schedule, first_stage)
    behind = _before(schedule, last_stage) if last_work == Work.BACKWARD else []
    counts[Work.FORWARD, ahead] += 1
    counts[Work.BACKWARD, behind] += 1
    found = {work: tuple(counts[work].tolist()) for work in schedule.work}
    return Path(
        forward=found[Work.FORWARD],
        backward=found[Work.BACKWARD],
        sends=_crossings(schedule, ahead) + _crossings(schedule, behind),
        first=[*ahead, first_stage][0],
        last=[*behind, last_stage][0],
        step=tuple(schedule.stages_of(device)),
        weight=found.get(Work.WEIGHT, ()),
        recompute=found.get(Work.RECOMPUTE, ()),
    )


def _before(schedule: Schedule, stage: int) -> list[int]:
    """The stages that a micro-batch passes before it comes to one."""
    return list(range(stage - stage % schedule.depth, stage))


def _crossings(schedule: Schedule, passed: list[int]) -> int:
    """Boundaries between devices from the first of these stages to the one after the last."""
    return sum(schedule.device(stage) != schedule.device(stage + 1) for stage in passed)


def mean_chain(costs: PipelineCosts, schedule: Schedule, recompute_seconds: float) -> float:
    """A lower bound of every plan's makespan: the mean of the devices' chains.

    Together they do all work of all blocks, whatever the cuts, and each of the first k stages of
    the model holds at least one block, so that what leads to a device is at least the first blocks.

    Args:
        costs: What each block costs.
        schedule: A schedule whose stages share devices.
        recompute_seconds: What all stages together recompute for one of their micro-batches.
    """
    chains = device_chains(schedule)
    mine = np.zeros((schedule.devices, schedule.stages), dtype=bool)
    for device in range(schedule.devices):
        mine[device, schedule.stages_of(device)] = True
    forward, backward = (
        _leads(np.array([chain.count(work) for chain in chains]), mine, schedule.depth)
        for work in (Work.FORWARD, Work.BACKWARD)
    )
    late = schedule.splits_backward
    blocks = [costs.blocks[kind] for kind in costs.sequence]
    down = np.cumsum([block.forward_seconds for block in blocks])[: schedule.depth]
    up = np.array([b.backward_seconds - b.weight_seconds * late for b in blocks])
    up = np.cumsum(up)[: schedule.depth]
    copies = schedule.stages // schedule.depth
    passes = sum(block.forward_seconds + block.backward_seconds for block in blocks)
    total = schedule.passes * (copies * passes + recompute_seconds)
    total += float(forward @ down + backward @ up)
    total += sum(chain.sends for chain in chains) * costs.send_seconds
    total += copies * sum(block.optimizer_seconds for block in blocks)
    return total / schedule.devices


def _leads(counts: Index, mine: Index, depth: int) -> Index:
    """How often, all chains together, exactly the first k + 1 stages lead to a device.

    ``counts`` has shape (devices, stages); the result (depth,).
    """
    lead = np.where(mine, 0, counts).sum(axis=0).reshape(-1, depth).sum(axis=0)
    return np.asarray(lead - np.append(lead[1:], 0))
