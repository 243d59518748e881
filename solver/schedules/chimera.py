"""Chimera: two pipelines in opposite directions (Li and Hoefler 2021, arXiv 2107.06925).

Every device holds a stage of the model going down and one going up, two copies of the model in all;
half of the micro-batches take each way. p micro-batches at a time make a unit: of each direction
p / 2, run like 1F1B, whose passes fall between those of the other direction. Units follow one
another without a flush (the paper's direct concatenation).
"""

from __future__ import annotations

import numpy as np

from solver.schedules.schedule import Order, Schedule, Work, tasks


class Chimera(Schedule):
    """Stages 0 .. p - 1 go down the devices; p .. 2 p - 1, the model once more, up.

    Args:
        devices: Pipeline-parallel size p, even.
        micro_batches: Micro-batches per iteration, even.
        virtual_stages: 1 in the words of a request: one chunk of the model per direction.
    """

    name = "chimera"
    title = "Chimera"
    even = True

    def __init__(self, devices: int, micro_batches: int, virtual_stages: int = 1) -> None:
        if devices % 2 or micro_batches % 2 or virtual_stages != 1:
            raise ValueError("chimera needs an even pipeline, even micro-batches, and no chunks")
        super().__init__(devices, micro_batches, 2)

    @property
    def depth(self) -> int:
        """A micro-batch passes one copy of the model."""
        return self.devices

    @property
    def passes(self) -> int:
        """Half of the micro-batches go each way."""
        return self.micro_batches // 2

    def device(self, stage: int) -> int:
        """Down the devices, and the second copy up."""
        return stage if stage < self.devices else 2 * self.devices - 1 - stage

    def order(self, device: int) -> Order:
        """Passes by the time at which they would begin if all lasted equally long."""
        p = self.devices
        micro_batch = np.arange(self.passes)
        unit, within = np.divmod(micro_batch, p // 2)
        begin = 2 * p * unit + 2 * within
        rows, times = [], []
        for stage in self.stages_of(device):
            place = stage % p
            rows += [tasks(work, stage, micro_batch) for work in (Work.FORWARD, Work.BACKWARD)]
            times += [begin + place, begin + 2 * p - 1 - place]
        return np.concatenate(rows)[np.concatenate(times).argsort(kind="stable")]

    def resized(self, devices: int, micro_batches: int) -> Chimera:
        """The same over other numbers, rounded up to even ones."""
        return Chimera(devices + devices % 2, micro_batches + micro_batches % 2)
