"""Interleaved 1F1B: v chunks per device, visited in turn (Narayanan et al. 2021, arXiv 2104.04473).

The order is Megatron-LM's: micro-batches go through the chunks in groups (by default of p), the
warm-up of device d is 2 (p - d - 1) + (v - 1) g chunk passes, then forward and backward alternate.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from solver.schedules.schedule import Order, Schedule, Work, alternate


class Interleaved(Schedule):
    """1F1B over p v virtual stages; chunk c of device d is stage c p + d."""

    name = "interleaved"
    title = "Interleaved 1F1B"
    chunks = None

    def __init__(
        self, devices: int, micro_batches: int, virtual_stages: int, group: int | None = None
    ) -> None:
        super().__init__(devices, micro_batches, virtual_stages)
        self.group = devices if group is None else group

    def order(self, device: int) -> Order:
        """Warm-up chunk passes, alternation, drain; backward visits the chunks in reverse."""
        chunks = range(self.virtual_stages)
        total = self.micro_batches * self.virtual_stages
        warm_up = 2 * (self.devices - device - 1) + (self.virtual_stages - 1) * self.group
        return alternate(
            min(warm_up, total),
            self._visits(Work.FORWARD, device, chunks),
            self._visits(Work.BACKWARD, device, reversed(chunks)),
        )

    def _visits(self, work: Work, device: int, chunks: Iterable[int]) -> Order:
        """Chunk passes of one kind: group by group, and within it chunk by chunk."""
        stages = np.array([chunk * self.devices + device for chunk in chunks])
        numbers = np.arange(self.micro_batches)
        full = self.micro_batches // self.group * self.group
        visits = np.empty((self.micro_batches * len(stages), 3), dtype=np.int64)
        visits[:, 0] = work
        rest = full * len(stages)
        for part, batches in (
            (visits[:rest], numbers[:full].reshape(-1, 1, self.group)),
            (visits[rest:], numbers[full:].reshape(1, 1, -1)),
        ):
            shape = (len(batches), len(stages), batches.shape[2])
            part[:, 1] = np.broadcast_to(stages[:, None], shape).ravel()
            part[:, 2] = np.broadcast_to(batches, shape).ravel()
        return visits

    def key(self) -> tuple[str, int, int, int]:
        """The group size is part of the order."""
        return (f"{self.name}/{self.group}", self.devices, self.micro_batches, self.virtual_stages)
