"""The search over layouts: the best first, until no other can be better.

Bounds of a layout come in stages, each dearer and tighter than the last: from the work alone
(``bound.py``), then from the cuts that the memory allows. The layout of least bound is always next:
it gets its next bound, or if it has them all it is solved exactly, and given up as soon as its own
bound passes the best plan found. What was given up, and at which bound, is the proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.menu import Menu
from solver.partition.outcome import Infeasible, Partition
from solver.partition.problem import Problem, partition_problem
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
class Loser:
    """A layout that did not win: its best plan if it was solved, and its proved bound."""

    layout: Layout
    makespan: float | None
    lower_bound: float


@dataclass(frozen=True)
class Outcome:
    """How a search ended.

    ``lower_bound`` holds for every layout that was considered. Without a winner, ``nearest`` is the
    layout that misses least memory, with where it misses; it is None if time ran out first.
    ``losers`` are the layouts that fit but did not win, best first.
    """

    found: Found | None
    lower_bound: float
    nearest: tuple[Layout, Infeasible] | None
    considered: int
    pruned: int
    infeasible: int
    unfinished: int
    losers: tuple[Loser, ...] = ()


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
    return _Search(layouts, costs_of, menu_of, relative_gap, time_limit_seconds, progress).run()


@dataclass(order=True)
class _Open:
    """A layout in question, ordered by its bound so far."""

    bound: float
    position: int
    layout: Layout = field(compare=False)
    costs: PipelineCosts = field(compare=False)
    problem: Problem | None = field(compare=False, default=None)
    menu: Menu | None = field(compare=False, default=None)


class _Search:
    def __init__(
        self,
        layouts: tuple[Layout, ...],
        costs_of: Callable[[Layout], PipelineCosts],
        menu_of: Callable[[PipelineCosts], Menu],
        relative_gap: float,
        time_limit_seconds: float,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._menu_of, self._relative_gap, self._tell = menu_of, relative_gap, progress
        self._deadline = time.monotonic() + time_limit_seconds
        self._open: list[_Open] = []
        for position, layout in enumerate(layouts):
            costs = costs_of(layout)
            bound = quick_bound(costs, layout.pipeline_parallel)
            heappush(self._open, _Open(bound, position, layout, costs))
        self._considered = len(layouts)
        self._found: Found | None = None
        self._nearest: tuple[Layout, Infeasible] | None = None
        self._proved = math.inf  # all layouts done with are this slow, the winner's bound apart
        self._losers: list[Loser] = []
        self._pruned = self._infeasible = self._unfinished = self._done = 0

    @property
    def _best(self) -> float:
        return self._found.partition.makespan if self._found else math.inf

    def run(self) -> Outcome:
        """Go on while some layout might still be better, and time is left."""
        while self._open and self._open[0].bound < self._best:
            if time.monotonic() >= self._deadline:
                break
            self._report()
            layout = heappop(self._open)
            if layout.problem is None:
                self._bound(layout)
            else:
                self._solve(layout, layout.problem, layout.menu)
        return self._outcome()

    def _bound(self, layout: _Open) -> None:
        """The second bound: cuts that the memory allows."""
        layout.menu = self._menu_of(layout.costs)
        schedule = _schedule(layout.layout, layout.costs)
        layout.problem = partition_problem(layout.costs, layout.menu, schedule)
        layout.bound = max(layout.bound, layout.problem.bound)
        heappush(self._open, layout)

    def _solve(self, layout: _Open, problem: Problem, menu: Menu | None) -> None:
        assert menu is not None
        self._done += 1
        result = problem.solve(
            relative_gap=self._relative_gap,
            time_limit_seconds=max(self._deadline - time.monotonic(), 0.0),
            cutoff=self._best,
        )
        if isinstance(result, Partition):
            self._keep(Found(layout.layout, layout.costs, menu, problem.schedule, result))
        elif isinstance(result, Infeasible):
            self._infeasible += 1
            self._nearer(layout.layout, result)
        else:
            bound = max(result.lower_bound, layout.bound)
            self._pruned += bound >= self._best
            self._unfinished += bound < self._best
            self._lose(Loser(layout.layout, None, bound))

    def _keep(self, candidate: Found) -> None:
        """Let the faster of two be the winner; the other's bound enters the proof."""
        loser: Found | None = candidate
        if candidate.partition.makespan < self._best:
            loser, self._found = self._found, candidate
        if loser is not None:
            partition = loser.partition
            self._lose(Loser(loser.layout, partition.makespan, partition.lower_bound))

    def _lose(self, loser: Loser) -> None:
        self._losers.append(loser)
        self._proved = min(self._proved, loser.lower_bound)

    def _nearer(self, layout: Layout, result: Infeasible) -> None:
        """Remember the layout that misses least memory."""
        if self._nearest is None or result.missing_bytes < self._nearest[1].missing_bytes:
            self._nearest = (layout, result)

    def _report(self) -> None:
        if self._tell is not None:
            incumbent = self._best if self._found else None
            bound = min(self._open[0].bound, self._best)
            self._tell(Progress(incumbent, bound, self._done, self._considered))

    def _outcome(self) -> Outcome:
        left = [entry for entry in self._open if math.isfinite(entry.bound)]
        misfits = [entry for entry in self._open if not math.isfinite(entry.bound)]
        better = [entry for entry in left if entry.bound < self._best]
        for entry in left:
            self._lose(Loser(entry.layout, None, entry.bound))
        lower = self._proved
        if self._found is not None:
            lower = min(lower, self._found.partition.lower_bound)
        elif not self._losers:
            self._find_nearest(misfits)
        return Outcome(
            found=self._found,
            lower_bound=lower,
            nearest=self._nearest,
            considered=self._considered,
            pruned=self._pruned + len(left) - len(better),
            infeasible=self._infeasible + len(misfits),
            unfinished=self._unfinished + len(better),
            losers=tuple(sorted(self._losers, key=_standing)),
        )

    def _find_nearest(self, misfits: list[_Open]) -> None:
        """Of the layouts that cannot fit, the one that misses least memory."""
        for entry in sorted(misfits, key=lambda entry: entry.position):
            assert entry.problem is not None
            result = entry.problem.solve()
            assert isinstance(result, Infeasible)
            self._nearer(entry.layout, result)


def _standing(loser: Loser) -> tuple[float, bool, Layout]:
    """Order of losers: by time, or by bound where no plan was made."""
    known = loser.makespan is not None
    return (
        loser.makespan if loser.makespan is not None else loser.lower_bound,
        known,
        loser.layout,
    )


def _schedule(layout: Layout, costs: PipelineCosts) -> Schedule:
    return make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
