"""Planners that minimise the sum of stage times plus the bottleneck's: Alpa, Aceso, FlexPipe.

Zheng et al. 2022 (Alpa, OSDI), Liu et al. 2024 (Aceso, EuroSys): an iteration of n micro-batches is
taken to last ``sum of t + (n - 1) max t``, t = F + B. That is an upper bound of 1F1B's makespan
(it never overlaps what it can), so its best plan need not be the fastest one.
"""

from __future__ import annotations

import numpy as np

from solver.baselines.stage_table import stage_table
from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Cut, cheapest_plan
from solver.partition.menu import Floats, Menu
from solver.partition.stages import Stage, stages_at
from solver.schedules import Schedule


def sum_and_bottleneck(
    costs: PipelineCosts, menu: Menu, schedule: Schedule
) -> tuple[Stage, ...] | None:
    """The stages of least sum plus bottleneck, recompute chosen best per stage; None: none fit."""
    table = stage_table(costs, menu, schedule)
    fits = table.candidates.alive & np.isfinite(table.backward)
    load = np.where(fits, table.forward + table.backward, np.inf)
    best: float = np.inf
    chosen: tuple[Cut, ...] = ()
    allowed = load
    while cuts := cheapest_plan(table.candidates, allowed):
        times = [_time(load, table.candidates.index(s, cut), s) for s, cut in enumerate(cuts)]
        value = sum(times) + (schedule.micro_batches - 1) * max(times)
        if value < best:
            best, chosen = value, cuts
        # A plan with a lower bottleneck has no stage as long as this one's longest.
        allowed = np.where(allowed < max(times), allowed, np.inf)
    return stages_at(costs, menu, schedule, chosen) if chosen else None


def _time(load: Floats, place: tuple[int, int], stage: int) -> float:
    return float(load[stage, place[0], place[1]])
