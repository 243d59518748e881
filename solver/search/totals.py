"""What bounds of many layouts need to know of the blocks that they share, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block, PipelineCosts

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Totals:
    """Per kind of block, arrays of shape (kinds,): how many there are, and what each takes.

    ``passes``: forward and backward of a micro-batch; ``updates``: the optimizer, once per
    iteration; both on the quickest device where they differ. ``states`` and ``inputs`` are bytes,
    the least of any device. ``layers`` says which kinds are layers. ``alike``: all devices are the
    same. ``on_each``: passes on every device, shape (devices, kinds); ``capacity`` and ``working``:
    what is left of its bytes beside the least reserve, and the least that some block works with,
    shape (devices,).
    """

    counts: Floats
    passes: Floats
    updates: Floats
    states: Floats
    inputs: Floats
    layers: Bools
    fixed_seconds: float
    alike: bool
    on_each: Floats
    capacity: Floats
    working: Floats

    @staticmethod
    def of(costs: PipelineCosts) -> Totals:
        """Those of a layout's blocks."""
        number = Counter(costs.sequence)
        devices = costs.devices or (costs,)
        passes = _each(devices, lambda block: block.forward_seconds + block.backward_seconds)
        working = _each(devices, lambda block: block.working_bytes)
        # A member's pipeline, longer than an exemplar's, may need no buffer.
        room = [one.capacity_bytes - one.reserved_bytes + one.buffer_bytes for one in devices]
        return Totals(
            counts=np.array([float(number[kind]) for kind in range(len(costs.blocks))]),
            passes=passes.min(axis=0),
            updates=_each(devices, lambda block: block.optimizer_seconds).min(axis=0),
            states=_each(devices, lambda block: block.states.total).min(axis=0),
            inputs=_each(devices, lambda block: block.input_bytes).min(axis=0),
            layers=np.array([block.checkpointable for block in costs.blocks]),
            fixed_seconds=costs.fixed_seconds,
            alike=not costs.devices,
            on_each=passes,
            capacity=np.array(room),
            working=working.min(axis=1),
        )

    def of_part(self, share: float) -> Totals:
        """For a micro-batch of which the present one is a multiple, where all grows with it."""
        return replace(
            self,
            passes=self.passes * share,
            inputs=self.inputs * share,
            on_each=self.on_each * share,
            working=self.working * share,
        )

    @property
    def work(self) -> float:
        """Seconds of one micro-batch through all blocks."""
        return float(self.counts @ self.passes)

    @property
    def room_bytes(self) -> Floats:
        """What states and kept bytes of a stage can be at most on every device."""
        return self.capacity - self.working


def _each(devices: tuple[PipelineCosts, ...], value: Callable[[Block], float]) -> Floats:
    """A value of every block on every device, shape (devices, kinds)."""
    return np.array([[value(block) for block in one.blocks] for one in devices])
