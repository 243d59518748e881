"""Recompute ahead of the gradient: work of its own before each backward, that waits for nobody.

MindSpeed's recompute-in-advance and Lynx (arXiv 2406.08756) use the stalls of a pipeline so. A
stage that recomputes on demand gives the work no time.
"""

from __future__ import annotations

import numpy as np

from solver.schedules.chimera import Chimera
from solver.schedules.gpipe import GPipe
from solver.schedules.interleaved import Interleaved
from solver.schedules.one_f_one_b import OneForwardOneBackward
from solver.schedules.schedule import Order, Schedule, Work


class Ahead(Schedule):
    """A schedule whose order holds R(s, m) before each B(s, m)."""

    work = (Work.FORWARD, Work.BACKWARD, Work.RECOMPUTE)

    def __init__(self, plain: Schedule) -> None:
        super().__init__(plain.devices, plain.micro_batches, plain.virtual_stages)
        self.plain = plain

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the schedule without recompute."""
        return self.plain.name

    @property
    def depth(self) -> int:
        """As without."""
        return self.plain.depth

    @property
    def passes(self) -> int:
        """As without."""
        return self.plain.passes

    def device(self, stage: int) -> int:
        """As without."""
        return self.plain.device(stage)

    def order(self, device: int) -> Order:
        """The plain order, each backward behind its recompute."""
        order = self.plain.order(device)
        found = np.repeat(order, np.where(order[:, 0] == Work.BACKWARD, 2, 1), axis=0)
        backward = np.flatnonzero(found[:, 0] == Work.BACKWARD)
        found[backward[::2], 0] = Work.RECOMPUTE
        return found

    def in_flight(self, stage: int) -> int:
        """As without."""
        return self.plain.in_flight(stage)

    def resized(self, devices: int, micro_batches: int) -> Ahead:
        """The same schedule over other numbers of devices and micro-batches."""
        return Ahead(self.plain.resized(devices, micro_batches))

    def key(self) -> tuple[str, int, int, int]:
        """That of the plain schedule, told apart from it."""
        name, devices, micro_batches, virtual_stages = self.plain.key()
        return (f"{name}, ahead", devices, micro_batches, virtual_stages)


def recomputing_ahead(schedule: Schedule) -> Schedule:
    """The schedule with recompute ahead; as it is where gradients of weights are work apart."""
    if type(schedule) in (OneForwardOneBackward, GPipe, Interleaved, Chimera):
        return Ahead(schedule)
    return schedule
