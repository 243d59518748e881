"""The search over layouts: the best first, until no other can be better.

Bounds of a layout come in stages, each dearer and tighter than the last: from the work alone
(``bound.py``), then from the cuts that the memory allows. The layout of least bound is always next:
it gets its next bound, or if it has them all it is solved exactly, and given up as soon as its own
bound passes the best plan found. What was given up, and at which bound, is the proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from heapq import heappop, heappush

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.menu import Menu
from solver.partition.outcome import EXACT, Infeasible, Partition
from solver.partition.problem import Problem, menu_on, partition_problem
from solver.partition.regime import Regime
from solver.progress import Progress
from solver.schedules import (
    Schedule,
    Work,
    make_schedule,
    recomputing_ahead,
    schedule_kind,
)
from solver.search.bound import quick_bound


@dataclass(frozen=True)
class Found:
    """The winner of a search, all that its answer needs."""

    layout: Layout
    costs: PipelineCosts
    menu: Menu
    schedule: Schedule
    partition: Partition
    regime: Regime


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


Regimes = Callable[[Layout, PipelineCosts], Sequence[Regime]]
"""The ways in which a plan of a layout may be made; none where it cannot be made at all."""


def one_regime(menu_of: Callable[[PipelineCosts], Menu], *, ahead: bool = False) -> Regimes:
    """Every plan is made with the one menu of its costs; ``ahead``: as ``Regime``."""
    return lambda layout, costs: [Regime(menu_of, ahead=ahead)]  # noqa: ARG005


def search(
    layouts: tuple[Layout, ...],
    costs_of: Callable[[Layout], PipelineCosts],
    regimes_of: Regimes,
    *,
    relative_gap: float,
    time_limit_seconds: float,
    floor_seconds: float = 0.0,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """The fastest plan over all layouts, their regimes, recompute choices and partitions.

    A layout's ``costs_of`` may be called twice; it should be cheap or remember. Of its regimes the
    first is the one that needs least memory. ``floor_seconds``: what no plan is below, as far as it
    is known beforehand; the search ends where it is reached.
    """
    limits = (relative_gap, time_limit_seconds, floor_seconds)
    return _Search(layouts, costs_of, regimes_of, *limits, progress).run()


class _End(IntEnum):
    """What became of a regime; of a layout, the greatest among its regimes."""

    INFEASIBLE = 0
    PRUNED = 1
    SOLVED = 2
    UNFINISHED = 3


@dataclass(order=True)
class _Open:
    """A layout in question, or one of its regimes, ordered by its bound so far."""

    bound: float
    position: int
    number: int
    layout: Layout = field(compare=False)
    costs: PipelineCosts = field(compare=False)
    regime: Regime | None = field(compare=False, default=None)
    problem: Problem | None = field(compare=False, default=None)
    menu: Menu | None = field(compare=False, default=None)


class _Search:
    def __init__(
        self,
        layouts: tuple[Layout, ...],
        costs_of: Callable[[Layout], PipelineCosts],
        regimes_of: Regimes,
        relative_gap: float,
        time_limit_seconds: float,
        floor_seconds: float,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._regimes_of, self._relative_gap, self._tell = regimes_of, relative_gap, progress
        self._floor = floor_seconds
        self._deadline = time.monotonic() + time_limit_seconds
        self._open: list[_Open] = []
        for position, layout in enumerate(layouts):
            costs = costs_of(layout)
            bound = max(_quick_bound(layout, costs), floor_seconds)
            heappush(self._open, _Open(bound, position, 0, layout, costs))
        self._considered = len(layouts)
        self._found: Found | None = None
        self._winner = -1  # its layout's position
        self._nearest: tuple[Layout, Infeasible] | None = None
        self._proved = math.inf  # all layouts done with are this slow, the winner's bound apart
        self._losers: list[tuple[int, Loser]] = []
        self._ends: dict[int, set[_End]] = {}
        self._begun: set[int] = set()

    @property
    def _best(self) -> float:
        return self._found.partition.makespan if self._found else math.inf

    def run(self) -> Outcome:
        """Go on while some layout might still be better, and time is left."""
        while self._open and self._open[0].bound < self._best:
            if time.monotonic() >= self._deadline or self._best <= self._floor * (1 + EXACT):
                break
            self._report()
            layout = heappop(self._open)
            if layout.regime is None:
                self._divide(layout)
            elif layout.problem is None:
                self._bound(layout, layout.regime)
            else:
                self._solve(layout, layout.problem, layout.menu, layout.regime)
        return self._outcome()

    def _divide(self, layout: _Open) -> None:
        """One entry for every regime, each with what it recomputes at least in its bound."""
        regimes = self._regimes_of(layout.layout, layout.costs)
        if not regimes:
            self._end(layout, _End.INFEASIBLE)
        for number, regime in enumerate(regimes):
            bound = max(layout.bound, regime.bound)
            if regime.recompute_seconds:
                bound = max(
                    bound, _quick_bound(layout.layout, layout.costs, regime.recompute_seconds)
                )
            heappush(self._open, replace(layout, bound=bound, number=number, regime=regime))

    def _bound(self, layout: _Open, regime: Regime) -> None:
        """The next bound: the regime's own, then cuts that the memory allows."""
        schedule = _schedule(layout.layout, layout.costs)
        if regime.ahead and regime.splits is None:
            schedule = recomputing_ahead(schedule)
        if regime.lower is not None:
            layout.bound = max(layout.bound, regime.lower(schedule))
            if layout.bound >= self._best:
                heappush(self._open, layout)
                return
        layout.menu = menu_on(regime.menu(layout.costs), schedule)
        layout.problem = partition_problem(layout.costs, layout.menu, schedule, regime)
        layout.bound = max(layout.bound, layout.problem.bound)
        heappush(self._open, layout)

    def _end(self, layout: _Open, how: _End) -> None:
        self._ends.setdefault(layout.position, set()).add(how)

    def _solve(self, layout: _Open, problem: Problem, menu: Menu | None, regime: Regime) -> None:
        assert menu is not None
        self._begun.add(layout.position)
        result = problem.solve(
            relative_gap=self._relative_gap,
            time_limit_seconds=max(self._deadline - time.monotonic(), 0.0),
            cutoff=self._best,
        )
        if isinstance(result, Partition):
            self._end(layout, _End.SOLVED)
            lower = min(max(result.lower_bound, layout.bound), result.makespan)
            result = replace(result, lower_bound=lower)
            found = Found(layout.layout, layout.costs, menu, problem.schedule, result, regime)
            self._keep(layout.position, found)
        elif isinstance(result, Infeasible):
            self._end(layout, _End.INFEASIBLE)
            self._nearer(layout.layout, result)
        else:
            bound = max(result.lower_bound, layout.bound)
            self._end(layout, _End.PRUNED if bound >= self._best else _End.UNFINISHED)
            self._lose(layout.position, Loser(layout.layout, None, bound))

    def _keep(self, position: int, candidate: Found) -> None:
        """Let the faster of two be the winner; the other's bound enters the proof."""
        at, loser = position, candidate
        if candidate.partition.makespan < self._best:
            known = self._found
            at, self._winner, self._found = self._winner, position, candidate
            if known is None:
                return
            loser = known
        partition = loser.partition
        self._lose(at, Loser(loser.layout, partition.makespan, partition.lower_bound))

    def _lose(self, position: int, loser: Loser) -> None:
        self._losers.append((position, loser))
        self._proved = min(self._proved, loser.lower_bound)

    def _nearer(self, layout: Layout, result: Infeasible) -> None:
        """Remember the layout that misses least memory."""
        if self._nearest is None or result.missing_bytes < self._nearest[1].missing_bytes:
            self._nearest = (layout, result)

    def _report(self) -> None:
        if self._tell is not None:
            incumbent = self._best if self._found else None
            bound = min(self._open[0].bound, self._best)
            self._tell(Progress(incumbent, bound, len(self._begun), self._considered))

    def _outcome(self) -> Outcome:
        misfits = [entry for entry in self._open if not math.isfinite(entry.bound)]
        for entry in self._open:
            if not math.isfinite(entry.bound):
                self._end(entry, _End.INFEASIBLE)
                continue
            open_still = entry.bound < self._best * (1 - EXACT)
            self._end(entry, _End.UNFINISHED if open_still else _End.PRUNED)
            self._lose(entry.position, Loser(entry.layout, None, entry.bound))
        lower = self._proved
        if self._found is not None:
            lower = min(lower, self._found.partition.lower_bound)
        elif not self._losers:
            self._find_nearest(misfits)
        ends = [max(ends) for ends in self._ends.values()]
        return Outcome(
            found=self._found,
            lower_bound=lower,
            nearest=self._nearest,
            considered=self._considered,
            pruned=ends.count(_End.PRUNED),
            infeasible=ends.count(_End.INFEASIBLE),
            unfinished=ends.count(_End.UNFINISHED),
            losers=self._losing_layouts(),
        )

    def _losing_layouts(self) -> tuple[Loser, ...]:
        """What became of every layout but the winner's, over all its regimes, best first."""
        of_layout: dict[int, list[Loser]] = {}
        for position, loser in self._losers:
            if position != self._winner:
                of_layout.setdefault(position, []).append(loser)
        return tuple(sorted((_together(losers) for losers in of_layout.values()), key=_standing))

    def _find_nearest(self, misfits: list[_Open]) -> None:
        """Of the layouts that cannot fit, the one that misses least memory."""
        for entry in sorted(misfits, key=lambda entry: entry.position):
            if entry.number or entry.regime is None:
                continue
            schedule = _schedule(entry.layout, entry.costs)
            menu = entry.menu or menu_on(entry.regime.menu(entry.costs), schedule)
            problem = partition_problem(entry.costs, menu, schedule, entry.regime)
            result = (entry.problem or problem).solve()
            assert isinstance(result, Infeasible)
            self._nearer(entry.layout, result)


def _together(losers: list[Loser]) -> Loser:
    """One layout's regimes: the best plan made under any, and the bound of all."""
    made = [loser.makespan for loser in losers if loser.makespan is not None]
    lower = min(loser.lower_bound for loser in losers)
    return Loser(losers[0].layout, min(made, default=None), lower)


def _standing(loser: Loser) -> tuple[float, bool, Layout]:
    """Order of losers: by time, or by bound where no plan was made."""
    known = loser.makespan is not None
    return (
        loser.makespan if loser.makespan is not None else loser.lower_bound,
        known,
        loser.layout,
    )


def _quick_bound(
    layout: Layout, costs: PipelineCosts, recompute_seconds: tuple[float, ...] = ()
) -> float:
    kind = schedule_kind(layout.schedule, layout.virtual_stages)
    return quick_bound(
        costs,
        layout.pipeline_parallel,
        recompute_seconds,
        splits_backward=Work.WEIGHT in kind.work,
    )


def _schedule(layout: Layout, costs: PipelineCosts) -> Schedule:
    return make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
