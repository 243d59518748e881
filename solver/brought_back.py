"""Activations that need not wait in host memory, for their device has room for all of its own.

Under a run that offloads every block may, at no cost in time, so plans are made as if all did.
"""

from __future__ import annotations

from dataclasses import replace

from solver.assess import assess
from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Part
from solver.partition.stages import Stage
from solver.schedules import Schedule


def brought_back(
    costs: PipelineCosts, schedule: Schedule, stages: tuple[Stage, ...]
) -> tuple[Stage, ...]:
    """The stages, those of devices that have room for everything with nothing offloaded."""
    if not costs.offload_bytes:
        return stages
    memory = assess(costs, schedule, stages).memory
    found = list(stages)
    for device in range(schedule.devices):
        mine = schedule.stages_of(device)
        away = sum(schedule.in_flight(stage) * _away(stages[stage]) for stage in mine)
        if memory[device].total + away <= costs.at(device).capacity_bytes:
            for stage in mine:
                found[stage] = replace(stages[stage], parts=tuple(map(_kept, stages[stage].parts)))
    return tuple(found)


def _away(stage: Stage) -> float:
    """Bytes of one micro-batch in host memory."""
    return sum(part.count * part.choice.offloaded_bytes for part in stage.parts)


def _kept(part: Part) -> Part:
    """The part with all that it does not recompute on the device."""
    choice = part.choice
    kept = choice.kept_bytes + choice.offloaded_bytes
    return replace(part, choice=replace(choice, kept_bytes=kept, offloaded=(), offloaded_bytes=0.0))
