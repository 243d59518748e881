"""Time against memory: the winner's layout solved again under smaller memories.

Each point is the best plan within a memory, so the curve is exact for its layout; a point that is
no faster than one of less memory is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from solver.assess import assess
from solver.partition.outcome import Partition
from solver.partition.problem import menu_on, partition_problem
from solver.partition.stages import decided_stages
from solver.search.outcome import Found

SHARES = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4)
"""Parts of what the fastest plan needs that are tried, until nothing fits."""


@dataclass(frozen=True)
class Point:
    """The best plan of the layout within a memory; bytes and seconds."""

    memory_bytes: float
    peak_bytes: float
    makespan: float
    lower_bound: float


def trade_off(found: Found, peak_bytes: float, time_limit_seconds: float) -> list[Point]:
    """The curve, ascending in memory, the winner last."""
    deadline = time.monotonic() + time_limit_seconds
    partition = found.partition
    points = [
        Point(found.costs.capacity_bytes, peak_bytes, partition.makespan, partition.lower_bound)
    ]
    for point in _smaller(found, peak_bytes, deadline):
        same = point.makespan <= points[-1].makespan * (1 + 1e-9)
        points = [*points[:-1], point] if same else [*points, point]
    return points[::-1]


def _smaller(found: Found, peak_bytes: float, deadline: float) -> Iterator[Point]:
    for share in SHARES:
        left = deadline - time.monotonic()
        costs = replace(found.costs, capacity_bytes=share * peak_bytes)
        if left <= 0:
            return
        menu = menu_on(found.regime.menu(costs), found.schedule)
        problem = partition_problem(costs, menu, found.schedule, found.regime)
        result = problem.solve(time_limit_seconds=left)
        if not isinstance(result, Partition):
            return
        judged = assess(costs, found.schedule, decided_stages(result, menu))
        yield Point(costs.capacity_bytes, judged.peak_bytes, result.makespan, result.lower_bound)
