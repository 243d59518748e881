"""Ways to keep and recompute on a device that holds several chunks, one for each emphasis.

Which chunk of a device should recompute is a matter of the whole pipeline: where one has time, a
second of recompute costs nothing. Beside the way that saves most seconds of all chunks together
there is one for every chunk that is spared first (``greedy.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solver.partition.menu import Floats, Index, Mix
from solver.schedules import Schedule

Ways = Callable[[int, Index], list[tuple[Mix, ...]]]
"""Of a device and the signatures of its chunks: mixes of all chunks, none if nothing fits."""


@dataclass(frozen=True, eq=False)
class Options:
    """Ways of one device to hold given chunks: seconds of shape (ways, chunks), and the mixes."""

    seconds: Floats
    mixes: tuple[tuple[Mix, ...], ...]


class DeviceOptions:
    """The ways of every device; arrays over splits have shape (splits, ...).

    Args:
        schedule: Which stages share a device.
        ways: How they may be held.
    """

    def __init__(self, schedule: Schedule, ways: Ways) -> None:
        self._schedule, self._ways = schedule, ways
        self._stages = [schedule.stages_of(device) for device in range(schedule.devices)]
        self._known: dict[tuple[int, bytes], Options | None] = {}

    def of(self, device: int, signatures: Index) -> Options | None:
        """What a device may do with its chunks; None if it cannot hold them."""
        key = device, signatures.tobytes()
        if key not in self._known:
            found = self._ways(device, signatures)
            seconds = np.array([[mix.seconds for mix in mixes] for mixes in found])
            self._known[key] = Options(seconds, tuple(found)) if found else None
        return self._known[key]

    def best(self, signatures: Index, weights: Floats) -> Floats:
        """Recompute seconds of every stage, each device's ways chosen by weighed seconds.

        Args:
            signatures: Shape (splits, stages).
            weights: Of a stage's seconds, shape (stages,).

        Returns:
            Shape (splits, stages); infinite where a device cannot hold its chunks.
        """
        found = np.empty(signatures.shape)
        base = int(signatures.max()) + 1
        for device, stages in enumerate(self._stages):
            mine = signatures[:, stages]
            keys = mine[:, 0]
            for chunk in range(1, len(stages)):
                keys = keys * base + mine[:, chunk]
            _, first, which = np.unique(keys, return_index=True, return_inverse=True)
            chosen = np.full((len(first), len(stages)), np.inf)
            for row, at in enumerate(first.tolist()):
                options = self.of(device, mine[at])
                if options is not None:
                    way = int((options.seconds @ weights[stages]).argmin())
                    chosen[row] = options.seconds[way]
            found[:, stages] = chosen[which.ravel()]
        return found

    def mixes(self, signatures: Index, seconds: Floats) -> tuple[Mix, ...]:
        """The mixes of one split that take these recompute seconds, shape (stages,) both."""
        chosen: dict[int, Mix] = {}
        for device, stages in enumerate(self._stages):
            options = self.of(device, signatures[stages])
            assert options is not None, "the split fits"
            away = np.abs(options.seconds - seconds[stages]).max(axis=1)
            chosen |= zip(stages, options.mixes[int(away.argmin())], strict=True)
        return tuple(chosen[stage] for stage in range(len(signatures)))
