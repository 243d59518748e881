"""The search over layouts whose plans a method decides: of each layout there is one plan.

No plan of a layout, whoever made it, is below the layout's bound, so layouts are taken by their
bounds as in ``search.py`` and the method runs on each until no bound is below the best time found.
What a method makes of one layout says nothing of another: variants are looked at one by one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from solver.baselines.methods import Method
from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.layouts.family import Family
from solver.partition.outcome import EXACT, Infeasible
from solver.partition.policy_menu import policy_menu
from solver.partition.regime import Regime
from solver.progress import Progress
from solver.request import Overlap, Recompute
from solver.schedules import make_schedule
from solver.search.bound import first_bounds
from solver.search.choice_bounds import ChoiceBounds, Least
from solver.search.frontier import Frontier
from solver.search.outcome import Found, Loser, Outcome, Stage
from solver.search.rough import RoughTotals
from solver.search.search import standing

ALL = 2**62
"""However many layouts, each is taken by its bound."""

SHOWN = 16
"""Layouts that were not looked at one by one of which the bound is told."""


def search_by_method(
    families: tuple[Family, ...],
    costs_of: Callable[[Layout], PipelineCosts],
    method: Method,
    overlap: Overlap,
    *,
    relative_gap: float,
    time_limit_seconds: float,
    rough: RoughTotals | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """The fastest of the plans that a method makes, one of each layout that it knows.

    Raises:
        BadRequest: The method knows none of the layouts.
    """
    regime = Regime(
        lambda costs: policy_menu(costs, Recompute()),
        method=lambda costs, schedule: method.partition(costs, schedule, overlap),
    )
    deadline = time.monotonic() + time_limit_seconds
    known = known_layouts(families, costs_of, method)
    return _Search(known, costs_of, regime, relative_gap, deadline, rough, progress).run()


def known_layouts(
    families: tuple[Family, ...], costs_of: Callable[[Layout], PipelineCosts], method: Method
) -> tuple[Family, ...]:
    """The layouts that a method plans.

    Raises:
        BadRequest: There are none.
    """
    found = []
    for family in families:
        each = zip(family.schedule, family.virtual.tolist(), strict=True)
        places = [place for place, shape in enumerate(each) if method.knows(*shape)]
        if places:
            found.append(family if len(places) == len(family) else family.only(places))
    if not found:
        method.refuse(families[0].schedule[0], int(families[0].virtual[0]))
    if costs_of(found[0].exemplar).devices:
        method.refuse_unlike_devices()
    return tuple(found)


@dataclass(order=True)
class _Open:
    """A layout that is not decided yet, ordered by its bound."""

    bound: float
    place: tuple[int, ...]
    layout: Layout = field(compare=False)
    costs: PipelineCosts = field(compare=False)


class _Search:
    def __init__(
        self,
        families: tuple[Family, ...],
        costs_of: Callable[[Layout], PipelineCosts],
        regime: Regime,
        relative_gap: float,
        deadline: float,
        rough: RoughTotals | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._costs_of, self._regime, self._relative_gap = costs_of, regime, relative_gap
        self._deadline, self._tell = deadline, progress
        self._frontier = Frontier(families, costs_of, 0.0, lambda *_: None, True, rough)
        self._frontier.begin(ALL)
        self._open: list[_Open] = []
        self._losers: list[Loser] = []
        self._best: Found | None = None
        self._nearest: tuple[Layout, Infeasible] | None = None
        self._solved = self._misfits = 0

    @property
    def _least(self) -> float:
        return math.inf if self._best is None else self._best.partition.makespan

    @property
    def _limit(self) -> float:
        """What a bound must stay below for its layout to matter."""
        return self._least * (1 - self._relative_gap)

    @property
    def _next_bound(self) -> float:
        return self._open[0].bound if self._open else math.inf

    def run(self) -> Outcome:
        """Go on while some layout might still be better, and time is left."""
        while time.monotonic() < self._deadline:
            if self._frontier.bound < min(self._next_bound, self._limit):
                self._enter(*self._frontier.take())
            elif self._next_bound < self._limit:
                self._report()
                entry = heappop(self._open)
                self._misfits += not self._decide(entry.layout, entry.costs)
            else:
                break
        if self._best is None and self._nearest is None and not self._open:
            for layout in self._frontier.misfits(SHOWN):
                self._decide(layout, self._costs_of(layout))
        return self._outcome()

    def _enter(self, family: Family, position: int, bound: float, place: tuple[int, int]) -> None:
        for number, layout in enumerate(family.variants(position)):
            costs = self._costs_of(layout)
            own = max(bound, *first_bounds(layout, costs))
            if math.isfinite(own):
                heappush(self._open, _Open(own, (*place, number), layout, costs))
            else:
                self._misfits += 1

    def _decide(self, layout: Layout, costs: PipelineCosts) -> bool:
        """Let the method plan a layout; whether it finds something that fits."""
        schedule = make_schedule(layout.schedule, layout.pipeline_parallel, costs.micro_batches)
        assert self._regime.method is not None
        made = self._regime.method(costs, schedule)
        if isinstance(made, Infeasible):
            if self._nearest is None or made.missing_bytes < self._nearest[1].missing_bytes:
                self._nearest = (layout, made)
            return False
        self._solved += 1
        menu = self._regime.menu(costs)
        loser: Found | None = Found(layout, costs, menu, schedule, made, self._regime)
        if made.makespan < self._least * (1 - EXACT):
            loser, self._best = self._best, loser
        if loser is not None:
            seconds = loser.partition.makespan
            self._losers.append(Loser(loser.layout, seconds, seconds))
        return True

    def _report(self) -> None:
        if self._tell is not None:
            incumbent = self._least if self._best else None
            bound = min(self._next_bound, self._frontier.bound, self._least)
            self._tell(Progress(incumbent, bound, self._solved, self._frontier.considered))

    def _outcome(self) -> Outcome:
        limit = self._limit
        pruned, misfits, unfinished, (least, _) = self._frontier.ends(limit)
        pruned[Stage.MEMORY] = misfits
        lower = min([least, *(loser.lower_bound for loser in self._losers)])
        for entry in self._open:
            lower = min(lower, entry.bound)
            if entry.bound < limit * (1 - EXACT):
                unfinished += 1
            else:
                pruned[Stage.BUBBLE] += 1
        lower = min(lower, self._least)
        losers = [
            *self._losers,
            *(Loser(entry.layout, None, entry.bound) for entry in self._open),
            *(Loser(layout, None, bound) for layout, bound in self._frontier.nearest(SHOWN)),
        ]
        return Outcome(
            found=self._best,
            lower_bound=lower,
            by_bound=lower,
            nearest=self._nearest,
            considered=self._frontier.considered,
            pruned=pruned.total() - pruned[Stage.MEMORY],
            infeasible=misfits + self._misfits,
            unfinished=unfinished,
            losers=tuple(sorted(losers, key=standing)),
            least=self._of_choices(),
            pruned_by={stage: pruned[stage] for stage in Stage},
            solved=self._solved,
        )

    def _of_choices(self) -> Least:
        found = ChoiceBounds()
        self._frontier.add_to(found)
        for loser in self._losers:
            found.add(loser.layout, loser.lower_bound)
        for entry in self._open:
            found.add(entry.layout, entry.bound)
        if self._best is not None:
            found.add(self._best.layout, self._least)
        return found.least()
