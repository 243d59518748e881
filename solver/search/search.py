"""The search over layouts: the best first, until no other can be better.

Each layout gets a cheap lower bound; in the order of those bounds each is solved exactly, and given
up as soon as its own bound passes the best plan found. What was given up, and at which bound, is
the proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.layouts import Layout
from solver.partition.menu import Menu
from solver.partition.solve import Dominated, Infeasible, Partition, solve_partition
from solver.progress import Progress
from solver.schedules import Schedule, make_schedule
from solver.search.bound import quick_bound


@dataclass(frozen=True)
class Found:
    """The winner of a search, all that its answer needs."""

    layout: Layout
    costs: PipelineCosts
    menu: Menu
    schedule: Schedule
    partition: Partition


@dataclass(frozen=True)
class Outcome:
    """How a search ended.

    ``lower_bound`` holds for every layout that was considered. Without a winner, ``nearest`` is the
    layout that misses least memory, with where it misses; it is None if time ran out first.
    """

    found: Found | None
    lower_bound: float
    nearest: tuple[Layout, Infeasible] | None
    considered: int
    pruned: int
    infeasible: int
    unfinished: int


def search(
    layouts: tuple[Layout, ...],
    costs_of: Callable[[Layout], PipelineCosts],
    menu_of: Callable[[PipelineCosts], Menu],
    *,
    relative_gap: float,
    time_limit_seconds: float,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """The fastest plan over all layouts, recompute choices and partitions.

    A layout's ``costs_of`` may be called twice; it should be cheap or remember.
    """
    deadline = time.monotonic() + time_limit_seconds
    ranked = []
    for position, layout in enumerate(layouts):
        costs = costs_of(layout)
        ranked.append((quick_bound(costs, layout.pipeline_parallel), position, layout, costs))
    ranked.sort(key=lambda entry: entry[:2])

    found: Found | None = None
    nearest: tuple[Layout, Infeasible] | None = None
    proved = float("inf")  # every layout done with is at least this slow, the winner's bound apart
    pruned = infeasible = unfinished = 0
    for done, (bound, _, layout, costs) in enumerate(ranked):
        best = found.partition.makespan if found else float("inf")
        if progress is not None:
            progress(Progress(best if found else None, min(bound, best), done, len(ranked)))
        if bound >= best:
            pruned += len(ranked) - done
            proved = min(proved, bound)
            break
        left = deadline - time.monotonic()
        if left <= 0:
            unfinished += len(ranked) - done
            proved = min(proved, bound)
            break
        menu, schedule = menu_of(costs), _schedule(layout, costs)
        result = solve_partition(
            costs,
            menu,
            schedule,
            relative_gap=relative_gap,
            time_limit_seconds=left,
            cutoff=best,
        )
        if isinstance(result, Infeasible):
            infeasible += 1
            if nearest is None or result.missing_bytes < nearest[1].missing_bytes:
                nearest = (layout, result)
        elif isinstance(result, Dominated):
            pruned += 1
            proved = min(proved, max(result.lower_bound, bound))
        elif result.makespan < best:
            if found is not None:
                proved = min(proved, found.partition.lower_bound)
            found = Found(layout, costs, menu, schedule, result)
        else:
            proved = min(proved, result.lower_bound)
    lower = min(proved, found.partition.lower_bound) if found else proved
    return Outcome(found, lower, nearest, len(ranked), pruned, infeasible, unfinished)


def _schedule(layout: Layout, costs: PipelineCosts) -> Schedule:
    if layout.virtual_stages > 1:
        raise BadRequest(
            "Plans over several virtual stages per device cannot be optimised yet.",
            field="layout.virtual_stages",
            hint="Leave it out or give 1; evaluations accept more.",
        )
    return make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches)
