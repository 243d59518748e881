"""The fixed orders of pipeline work, their exact simulation and critical paths."""

from __future__ import annotations

from solver.schedules.gpipe import GPipe
from solver.schedules.graph import ScheduleGraph, schedule_graph
from solver.schedules.interleaved import Interleaved
from solver.schedules.one_f_one_b import OneForwardOneBackward
from solver.schedules.path import Path, critical_path
from solver.schedules.schedule import Schedule, Task, Work
from solver.schedules.simulate import Simulation, StageTimes, simulate

__all__ = [
    "GPipe",
    "Interleaved",
    "OneForwardOneBackward",
    "Path",
    "Schedule",
    "ScheduleGraph",
    "Simulation",
    "StageTimes",
    "Task",
    "Work",
    "critical_path",
    "make_schedule",
    "schedule_graph",
    "simulate",
]


def make_schedule(
    name: str, devices: int, micro_batches: int, virtual_stages: int = 1, group: int = 0
) -> Schedule:
    """The schedule of that name; ``1f1b`` over several chunks per device is the interleaved one.

    ``group``: micro-batches that it takes through a chunk in a row, 0 for as many as devices.
    """
    if name == GPipe.name and virtual_stages == 1:
        return GPipe(devices, micro_batches)
    if name == OneForwardOneBackward.name and virtual_stages == 1:
        return OneForwardOneBackward(devices, micro_batches)
    if name in (OneForwardOneBackward.name, Interleaved.name):
        return Interleaved(devices, micro_batches, virtual_stages, group or None)
    raise ValueError(f"no schedule '{name}' with {virtual_stages} virtual stages")
