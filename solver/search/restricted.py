"""The search for a plan that a framework can run, beside the search for the best plan of all.

The free plan comes first. Its bound holds for the restricted one as well, so that the second search
may end as soon as it reaches it; and the distance between both is what the framework costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Family, Layout
from solver.progress import Progress
from solver.search.outcome import Outcome
from solver.search.rough import RoughTotals
from solver.search.search import Regimes, search

FREE_SHARE = 0.5
"""Of the time limit, what the free search may take."""


@dataclass(frozen=True)
class Restricted:
    """How both searches ended."""

    found: Outcome
    free: Outcome

    @property
    def free_bound(self) -> float:
        """Seconds that no plan whatever is below."""
        return self.free.lower_bound


def restricted_search(
    families: tuple[Family, ...],
    all_families: tuple[Family, ...],
    costs_of: Callable[[Layout], PipelineCosts],
    regimes_of: Regimes,
    free_regimes_of: Regimes,
    *,
    relative_gap: float,
    time_limit_seconds: float,
    rough: RoughTotals | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Restricted:
    """The fastest plan that a framework can run, and the fastest of all.

    Args:
        families: The layouts that the framework runs.
        all_families: Those that the request admits without the framework.
        costs_of: What each costs.
        regimes_of: What the framework can be told.
        free_regimes_of: The request's own recompute policy.
        relative_gap: Of each search.
        time_limit_seconds: Of both together.
        rough: As ``search``.
        progress: Told of every layout that is begun, in both.
    """
    started = time.monotonic()
    remembered = cache(costs_of)
    free = search(
        (*all_families, *families),
        remembered,
        free_regimes_of,
        relative_gap=relative_gap,
        time_limit_seconds=FREE_SHARE * time_limit_seconds,
        rough=rough,
        progress=progress,
    )
    floor = free.lower_bound if free.found is not None else 0.0
    found = search(
        families,
        remembered,
        regimes_of,
        relative_gap=relative_gap,
        time_limit_seconds=time_limit_seconds - (time.monotonic() - started),
        floor_seconds=floor,
        progress=progress,
    )
    return Restricted(found, free)
