"""Promising plans by their walks (``walks.py``): a beam over stages.

The walks of a plan that lie in its first stages tell what these stages alone allow; nearly always
the longest walk of a whole plan is its makespan. So plans are grown stage by stage, each with its
own walks, and of those that cut alike the best few go on.
"""

from __future__ import annotations

import numpy as np

from solver.partition.candidates import Cut, Index
from solver.partition.walks import Walks
from solver.schedules.simulate import Floats

ALIKE = 8
"""Beginnings of plans that cut at the same place and are followed at once."""

BEST = 4
"""Plans that are worth a simulation."""


def promising_plans(walks: Walks, limit: float = np.inf) -> list[tuple[Cut, ...]]:
    """Plans of the runs that are still looked at, the one of the shortest longest walk first.

    None has a walk of ``limit`` or more, which would make it no faster than that.
    """
    runs, order = walks.runs, walks.by_stop
    rest = walks.rest[order.where]
    way = (walks.way + runs.times)[order.where]
    led, times = runs.led[order.where], runs.times[order.where]
    stops = runs.stop[order.where]
    lengths = walks.share.shape[1]
    # Of every beginning: its cut, its longest walk, what leads to its cut, the sums of its last
    # stages, shorter ones first.
    cut = np.zeros(1, dtype=np.int64)
    longest, before = np.full(1, -np.inf), np.zeros(1)
    last = np.zeros((1, 0))
    history: list[tuple[Index, Index]] = []
    for stage, (low, high) in enumerate(order.edges):
        grown, run = np.nonzero(cut[:, None] == order.far[low:high])
        if not len(run):
            return []
        at = run + low
        here = times[at, None]
        sums = np.concatenate([here, last[grown, : lengths - 1] + here], axis=1)
        came = before[grown] + led[at]
        size = sums.shape[1]
        trips = sums * walks.share[stage, :size] + walks.sends[stage, :size]
        value = trips.max(axis=1) + np.maximum(came, way[at]) + rest[at]
        np.maximum(value, longest[grown], out=value)
        stop = stops[at]
        chosen = _best_of_each(stop, value, came)
        chosen = chosen[value[chosen] < limit]
        history.append((grown[chosen], stop[chosen]))
        cut, longest, before, last = stop[chosen], value[chosen], came[chosen], sums[chosen]
    plans = []
    for end in np.argsort(longest, kind="stable")[:BEST].tolist():
        places, row = [], end
        for grown, stop in reversed(history):
            places.append(int(stop[row]))
            row = int(grown[row])
        plans.append(walks.plan([0, *reversed(places)]))
    return plans


def _best_of_each(cut: Index, value: Floats, before: Floats) -> Index:
    """Of those of every cut the few of least value."""
    order = np.lexsort((before, value, cut))
    ordered = cut[order]
    return (
        order[:ALIKE]
        if len(order) <= ALIKE
        else order[
            np.concatenate([np.ones(ALIKE, dtype=bool), ordered[ALIKE:] != ordered[:-ALIKE]])
        ]
    )
