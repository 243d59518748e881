"""ZB-V: zero bubble in the memory of 1F1B, two chunks per device (Qi et al., arXiv 2405.15362).

The model goes down the devices and up again: stages s and 2 p - 1 - s share a device, so the first
device also holds the end and sees the loss first. The order is the handcrafted one, without idle
time once begun where forward, backward and gradients of weights last equally long.
"""

from __future__ import annotations

import numpy as np

from solver.schedules.schedule import Order, Schedule, Work

_DOWN, _UP = 0, 1
_Step = tuple[Work, int]


class ZeroBubbleV(Schedule):
    """Chunk 0 of device d is stage d, chunk 1 is stage 2 p - 1 - d."""

    name = "zb-v"
    title = "ZB-V"
    chunks = 2
    work = (Work.FORWARD, Work.BACKWARD, Work.WEIGHT)

    def __init__(self, devices: int, micro_batches: int, virtual_stages: int = 2) -> None:
        if virtual_stages != 2:
            raise ValueError(f"zb-v has two chunks per device, not {virtual_stages}")
        super().__init__(devices, micro_batches, 2)

    def device(self, stage: int) -> int:
        """Down the devices and up again."""
        return stage if stage < self.devices else 2 * self.devices - 1 - stage

    def order(self, device: int) -> Order:
        """The steps below, each for the next micro-batch of its kind; those beyond n left out."""
        steps = self._steps(device)
        code = np.array([work * 2 + chunk for work, chunk in steps])
        micro_batch = np.zeros(len(code), dtype=np.int64)
        for kind in np.unique(code):
            mine = code == kind
            micro_batch[mine] = np.arange(mine.sum())
        chunk = code % 2
        stage = np.where(chunk == _DOWN, device, 2 * self.devices - 1 - device)
        order = np.stack([code // 2, stage, micro_batch], axis=1)
        return order[micro_batch < self.micro_batches]

    def _steps(self, device: int) -> list[_Step]:
        """Warm-up down, then both ways; turns of down and up; late gradients in the cool-down.

        Written for as many micro-batches as fill the pipeline, or more.
        """
        p = self.devices
        count = max(self.micro_batches, 2 * p - 1)
        forward, backward, weight = (
            [(work, chunk) for chunk in (_DOWN, _UP)]
            for work in (Work.FORWARD, Work.BACKWARD, Work.WEIGHT)
        )
        last = p - device
        down_turn = [backward[_DOWN], weight[_DOWN]]
        up_turn = [forward[_UP], backward[_UP], weight[_UP]]
        steps = [forward[_DOWN]] * (2 * last - 1)
        steps += [forward[_UP], forward[_DOWN]] * device
        steps += up_turn * last
        ahead = 2 * p - 1 - device  # forwards down so far; up, as many as devices
        steps += [forward[_DOWN], *down_turn, *up_turn] * (count - ahead)
        steps += [*down_turn, *up_turn] * (ahead - p)
        steps += [backward[_DOWN], backward[_UP]] * device
        steps += down_turn * last
        steps += [weight[_UP]] * device
        steps += [weight[_DOWN]] * device
        return steps
