"""The runs of every stage as diagonals, for programs over stages and cuts (``walks.py``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.partition.candidates import Bools, Candidates
from solver.schedules.simulate import Floats

NEVER = 1e200
"""Seconds that stand for a state that no plan reaches; finite, so that sums stay numbers."""


@dataclass(frozen=True, eq=False)
class Step:
    """The runs of a stage that hold alike many blocks: from the cuts ``start`` to those ``stop``.

    ``start`` and ``stop`` are slices of the windows of cuts; the times have shape (cuts,). ``led``
    are the times with what begins and ends every path that comes down to the stage: on the first
    one its gather and its reduction, on others nothing. ``gather`` and ``reduction`` are each
    run's own.
    """

    start: slice
    stop: slice
    times: Floats
    led: Floats
    forward: Floats
    backward: Floats
    fixed: Floats
    gather: Floats
    reduction: Floats

    def without(self, gone: Bools) -> Step:
        """The step with some of its runs gone, not all."""
        left = np.flatnonzero(~gone)
        low, high = int(left[0]), int(left[-1]) + 1
        return Step(
            start=slice(self.start.start + low, self.start.start + high),
            stop=slice(self.stop.start + low, self.stop.start + high),
            times=np.where(gone, NEVER, self.times)[low:high],
            led=np.where(gone, NEVER, self.led)[low:high],
            forward=self.forward[low:high],
            backward=self.backward[low:high],
            fixed=self.fixed[low:high],
            gather=self.gather[low:high],
            reduction=self.reduction[low:high],
        )


def steps_of(candidates: Candidates) -> list[list[Step]]:
    """The steps of every stage, of the runs that are alive."""
    alive = candidates.alive
    gathers = np.broadcast_to(candidates.before_first, alive.shape)
    reductions = np.broadcast_to(candidates.after_last, alive.shape)
    made = []
    for stage, here in enumerate(alive):
        row = []
        places = np.argwhere(here)
        for shift in np.unique(places[:, 1] - places[:, 0]).tolist():
            begin = max(0, -shift)
            there = here.diagonal(shift)
            at = np.flatnonzero(there)
            low, high = int(at[0]), int(at[-1]) + 1
            dead = np.where(there[low:high], 0.0, NEVER)
            forward, backward, step, gather, reduction = (
                part[stage].diagonal(shift)[low:high]
                for part in (
                    candidates.forward,
                    candidates.backward,
                    np.broadcast_to(candidates.step, alive.shape),
                    gathers,
                    reductions,
                )
            )
            backward = np.where(there[low:high], backward, 0.0)
            start = begin + low
            times = forward + backward + dead
            row.append(
                Step(
                    start=slice(start, start + high - low),
                    stop=slice(start + shift, start + shift + high - low),
                    times=times,
                    led=times if stage else times + gather + reduction,
                    forward=forward,
                    backward=backward,
                    fixed=step,
                    gather=gather,
                    reduction=reduction,
                )
            )
        made.append(row)
    return made
