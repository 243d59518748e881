"""ZB-H1: 1F1B with the gradients of weights made later (Qi et al. 2023, arXiv 2401.10241).

The backward of a stage is only the gradient of its input, which the stage before waits for; that of
its weights waits until the device has nothing more urgent. Device d makes it d backwards later, so
that the last stage hands all gradients down before it makes its own. As many micro-batches are held
on every device, alive or waiting, as 1F1B holds on its first.
"""

from __future__ import annotations

import numpy as np

from solver.schedules.one_f_one_b import OneForwardOneBackward
from solver.schedules.schedule import Order, Work, delayed, tasks


class ZeroBubbleH1(OneForwardOneBackward):
    """1F1B's order; after B(s, m) stands W(s, m - s), and the last s gradients at the end."""

    name = "zb-h1"
    title = "ZB-H1"
    work = (Work.FORWARD, Work.BACKWARD, Work.WEIGHT)

    def order(self, device: int) -> Order:
        """1F1B with each gradient of weights ``device`` backwards late."""
        weights = tasks(Work.WEIGHT, device, np.arange(self.micro_batches))
        return delayed(super().order(device), weights, device)
