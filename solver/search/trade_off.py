"""Time against memory: the winner's layout solved again under smaller memories.

Each point is the best plan within a memory, so the curve is exact for its layout; a point that is
no faster than one of less memory is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from solver.assess import assess
from solver.brought_back import brought_back
from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout, listed
from solver.partition.stages import decided_stages
from solver.search.outcome import Found
from solver.search.search import Regimes, search

SHARES = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4)
"""Parts of what the fastest plan needs that are tried, until nothing fits."""


GAP = 1e-4
"""Proved distance to the optimum at which a point is good enough."""


@dataclass(frozen=True)
class Point:
    """The best plan of the layout within a memory; bytes and seconds."""

    memory_bytes: float
    peak_bytes: float
    makespan: float
    lower_bound: float


def trade_off(
    found: Found,
    costs: PipelineCosts,
    regimes_of: Regimes,
    peak_bytes: float,
    time_limit_seconds: float,
) -> list[Point]:
    """The curve, ascending in memory, the winner last.

    Args:
        found: The winner.
        costs: Its layout's.
        regimes_of: The ways in which a plan may be made: less memory may take another than the
            winner's.
        peak_bytes: What the winner needs.
        time_limit_seconds: Of all points together.
    """
    deadline = time.monotonic() + time_limit_seconds
    partition = found.partition
    points = [Point(costs.capacity_bytes, peak_bytes, partition.makespan, partition.lower_bound)]
    for point in _smaller(found, costs, regimes_of, peak_bytes, deadline):
        same = point.makespan <= points[-1].makespan * (1 + 1e-9)
        points = [*points[:-1], point] if same else [*points, point]
    return points[::-1]


def _smaller(
    found: Found,
    costs: PipelineCosts,
    regimes_of: Regimes,
    peak_bytes: float,
    deadline: float,
) -> Iterator[Point]:
    layouts = listed((found.layout,), (costs.micro_batches,))
    for share in SHARES:
        left = deadline - time.monotonic()
        within = replace(costs, capacity_bytes=share * peak_bytes)
        if left <= 0:
            return
        outcome = search(
            layouts,
            _always(within),
            regimes_of,
            relative_gap=GAP,
            time_limit_seconds=left,
            inputs_kept=False,
        )
        best = outcome.found
        if best is None:
            return
        stages = decided_stages(best.partition, best.menu)
        stages = brought_back(best.costs, best.schedule, stages)
        judged = assess(best.costs, best.schedule, stages)
        seconds, lower = best.partition.makespan, outcome.lower_bound
        yield Point(within.capacity_bytes, judged.peak_bytes, seconds, min(lower, seconds))


def _always(costs: PipelineCosts) -> Callable[[Layout], PipelineCosts]:
    return lambda _: costs
