"""Stage times of every run of blocks, as the planners of the literature tabulate them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Candidates, Cut, Index
from solver.partition.menu import Floats, Menu
from solver.partition.runs import run_totals, signatures
from solver.schedules import Schedule


@dataclass(frozen=True, eq=False)
class StageTable:
    """Forward and backward seconds by [stage, start, stop] in windows (``candidates.py``).

    ``backward`` includes the recompute that the stage's memory asks for, infinite where nothing
    fits; the recompute is the menu's bound, within a tensor's time of its exact value.
    """

    candidates: Candidates
    forward: Floats
    backward: Floats

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.candidates.stages


def stage_table(costs: PipelineCosts, menu: Menu, schedule: Schedule) -> StageTable:
    """The table of a schedule with one stage per device."""
    kinds = len(costs.blocks)
    known = menu.signatures() or signatures(costs.sequence, kinds)
    totals = run_totals(costs, known.counts[:, :kinds])
    candidates = Candidates.all(known, totals, schedule.stages)
    stage, start, stop = np.nonzero(candidates.alive)
    runs = candidates.runs[stage, start, stop]
    flights = np.array([schedule.in_flight(s) for s in range(schedule.stages)])[stage]
    pairs, which = np.unique(np.stack([runs, flights], axis=1), axis=0, return_inverse=True)
    extra = menu.bounds(known.counts[pairs[:, 0]], totals.states[pairs[:, 0]], pairs[:, 1])
    backward = np.full(candidates.alive.shape, np.inf)
    backward[stage, start, stop] = totals.backward[runs] + extra[which.ravel()]
    return StageTable(candidates, candidates.forward, backward)


def cuts_from(table: StageTable, next_stop: list[Index]) -> tuple[Cut, ...]:
    """Cuts from the best stop per stage and start."""
    cuts, start = [], 0
    for stage, stops in enumerate(next_stop):
        stop = int(stops[start])
        cuts.append(table.candidates.cut(stage, start, stop))
        start = stop
    return tuple(cuts)
