"""The runs in question as lists, for programs over stages and cuts (``walks.py``).

Programs go from stage to stage and take, per cut, the least over the runs that start or stop there.
So the runs of a stage stand next to one another, in the order of the cuts that they start at or of
those that they stop at, and a look at all of a stage's runs is one array operation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields

import numpy as np

from solver.partition.candidates import Bools, Candidates, Index
from solver.schedules.simulate import Floats

NEVER = 1e200
"""Seconds that stand for a state that no plan reaches; finite, so that sums stay numbers."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of all stages, by stage; arrays have shape (runs,).

    ``start`` and ``stop`` are places in the windows of cuts. ``led`` are the ``times`` of a pass
    with what begins and ends every path that comes down to the stage: on the first one its gather
    and its reduction, on others nothing. ``gather`` and ``reduction`` are each run's own.
    """

    stage: Index
    start: Index
    stop: Index
    forward: Floats
    backward: Floats
    times: Floats
    led: Floats
    fixed: Floats
    gather: Floats
    reduction: Floats

    @classmethod
    def of(cls, candidates: Candidates) -> Runs:
        """The runs that are alive, those of a stage by start."""
        stage, start, stop = np.nonzero(candidates.alive)
        forward, backward, fixed, gather, reduction = (
            part[stage, start, stop]
            for part in (
                candidates.forward,
                candidates.backward,
                candidates.step,
                candidates.before_first,
                candidates.after_last,
            )
        )
        times = forward + backward
        led = times + np.where(stage == 0, gather + reduction, 0.0)
        return cls(stage, start, stop, forward, backward, times, led, fixed, gather, reduction)

    def taking(self, which: Index | Bools) -> Runs:
        """Some of the runs, or all in another order."""
        return Runs(*(getattr(self, field.name)[which] for field in fields(self)))

    def by_stop(self) -> Index:
        """The order in which those of a stage stand by stop."""
        return np.lexsort((self.start, self.stop, self.stage))

    def edges(self, stages: int) -> list[tuple[int, int]]:
        """Where the runs of each stage begin and end."""
        return list(itertools.pairwise(np.searchsorted(self.stage, np.arange(stages + 1)).tolist()))
