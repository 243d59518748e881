"""1F1B: one forward, one backward in turn after the warm-up (PipeDream-flush, arXiv 2006.09503)."""

from __future__ import annotations

import numpy as np

from solver.schedules.schedule import Order, Schedule, Work, alternate, tasks


class OneForwardOneBackward(Schedule):
    """Stage s runs min(p - s - 1, n) forward passes ahead, then alternates, then drains."""

    name = "1f1b"
    title = "1F1B"

    def order(self, device: int) -> Order:
        """Warm-up forwards, alternating forward and backward, remaining backwards."""
        micro_batches = np.arange(self.micro_batches)
        return alternate(
            min(self.devices - device - 1, self.micro_batches),
            tasks(Work.FORWARD, device, micro_batches),
            tasks(Work.BACKWARD, device, micro_batches),
        )

    def in_flight(self, stage: int) -> int:
        """min(p - s, n), s counted from 0."""
        return min(self.devices - stage, self.micro_batches)
