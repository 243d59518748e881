"""GPipe: all forward passes, then all backward passes (Huang et al. 2019, arXiv 1811.06965)."""

from __future__ import annotations

import numpy as np

from solver.schedules.schedule import Order, Schedule, Work, tasks


class GPipe(Schedule):
    """Every stage holds all micro-batches at the turn from forward to backward."""

    name = "gpipe"
    title = "GPipe"

    def order(self, device: int) -> Order:
        """Forward passes 0 .. n - 1, then backward passes 0 .. n - 1."""
        micro_batches = np.arange(self.micro_batches)
        forwards = tasks(Work.FORWARD, device, micro_batches)
        return np.concatenate([forwards, tasks(Work.BACKWARD, device, micro_batches)])

    def in_flight(self, stage: int) -> int:  # noqa: ARG002 - the same on every stage
        """All n."""
        return self.micro_batches
