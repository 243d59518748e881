"""What bounds of many layouts need to know of the blocks that they share, as arrays."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import PipelineCosts

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Totals:
    """Per kind of block, arrays of shape (kinds,): how many there are, and what each takes.

    ``passes``: forward and backward of a micro-batch; ``updates``: the optimizer, once per
    iteration; both on the quickest device where they differ. ``states``, ``inputs`` and ``working``
    are bytes. ``layers`` says which kinds are layers. ``alike``: all devices are the same.
    """

    counts: Floats
    passes: Floats
    updates: Floats
    states: Floats
    inputs: Floats
    working: Floats
    layers: Bools
    capacity_bytes: float
    reserved_bytes: float
    fixed_seconds: float
    alike: bool

    @staticmethod
    def of(costs: PipelineCosts) -> Totals:
        """Those of a layout's blocks."""
        number = Counter(costs.sequence)
        of_kind = list(zip(*(one.blocks for one in costs.different), strict=True))

        def least(passes: bool) -> Floats:
            return np.array(
                [
                    min(
                        b.forward_seconds + b.backward_seconds if passes else b.optimizer_seconds
                        for b in kind
                    )
                    for kind in of_kind
                ]
            )

        return Totals(
            counts=np.array([float(number[kind]) for kind in range(len(costs.blocks))]),
            passes=least(passes=True),
            updates=least(passes=False),
            states=np.array([block.states.total for block in costs.blocks]),
            inputs=np.array([block.input_bytes for block in costs.blocks]),
            working=np.array([block.working_bytes for block in costs.blocks]),
            layers=np.array([block.checkpointable for block in costs.blocks]),
            capacity_bytes=costs.capacity_bytes,
            reserved_bytes=costs.reserved_bytes,
            fixed_seconds=costs.fixed_seconds,
            alike=not costs.devices,
        )

    def of_part(self, share: float) -> Totals:
        """For a micro-batch of which the present one is a multiple, where all grows with it."""
        return replace(
            self,
            passes=self.passes * share,
            inputs=self.inputs * share,
            working=self.working * share,
        )

    @property
    def work(self) -> float:
        """Seconds of one micro-batch through all blocks."""
        return float(self.counts @ self.passes)

    @property
    def room_bytes(self) -> float:
        """What states and kept bytes of a stage can be at most."""
        return float(self.capacity_bytes - self.reserved_bytes - self.working.min())
