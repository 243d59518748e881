"""The fixed orders of pipeline work, their exact simulation and critical paths."""

from __future__ import annotations

from solver.schedules.ahead import recomputing_ahead
from solver.schedules.chimera import Chimera
from solver.schedules.gpipe import GPipe
from solver.schedules.graph import ScheduleGraph, schedule_graph
from solver.schedules.interleaved import Interleaved
from solver.schedules.one_f_one_b import OneForwardOneBackward
from solver.schedules.path import Path, critical_path
from solver.schedules.schedule import Schedule, Task, Work
from solver.schedules.simulate import Simulation, StageTimes, simulate
from solver.schedules.slots import makespans
from solver.schedules.zero_bubble import ZeroBubbleH1
from solver.schedules.zero_bubble_v import ZeroBubbleV

__all__ = [
    "SCHEDULES",
    "Chimera",
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
    "ZeroBubbleH1",
    "ZeroBubbleV",
    "critical_path",
    "make_schedule",
    "makespans",
    "recomputing_ahead",
    "schedule_graph",
    "schedule_kind",
    "simulate",
]


SCHEDULES: dict[str, type[Schedule]] = {
    kind.name: kind
    for kind in (OneForwardOneBackward, Interleaved, GPipe, ZeroBubbleH1, ZeroBubbleV, Chimera)
}
"""Every schedule by its name."""


def schedule_kind(name: str, virtual_stages: int) -> type[Schedule]:
    """The schedule of that name; ``1f1b`` over several chunks per device is the interleaved one.

    Raises:
        ValueError: There is none of that name, or it is not made for so many chunks.
    """
    kind = SCHEDULES.get(name)
    if kind is OneForwardOneBackward and virtual_stages > 1:
        kind = Interleaved
    if kind is None or kind.chunks not in (None, virtual_stages):
        raise ValueError(f"no schedule '{name}' with {virtual_stages} virtual stages")
    return kind


def make_schedule(
    name: str, devices: int, micro_batches: int, virtual_stages: int = 1, group: int = 0
) -> Schedule:
    """The schedule of that name (``schedule_kind``) over so many devices and micro-batches.

    ``group``: micro-batches that an interleaved one takes through a chunk in a row, 0 for as many
    as devices.
    """
    kind = schedule_kind(name, virtual_stages)
    if kind is Interleaved:
        return Interleaved(devices, micro_batches, virtual_stages, group or None)
    return kind(devices, micro_batches, virtual_stages)
