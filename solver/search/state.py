"""What a search over layouts was asked, and what it knows so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.layouts.family import Family
from solver.partition.outcome import EXACT, Infeasible
from solver.partition.regime import Regime
from solver.progress import Progress
from solver.search.entries import End, Head, Open
from solver.search.frontier import Frontier
from solver.search.outcome import Found, Loser, Stage
from solver.search.variants import gain

Regimes = Callable[[Layout, PipelineCosts], Sequence[Regime]]
"""The ways in which a plan of a layout may be made; none where it cannot be made at all."""


@dataclass(eq=False)
class State:
    """One search under way; the arguments first, as ``search`` takes them.

    ``deadline`` is on the monotonic clock. ``most_solved`` is infinite where no number is given.
    ``frontier`` has the members not looked at one by one, ``open`` is a heap of what is in
    question, ``heads`` are the variants that others follow from. ``leader`` is the best so far;
    ``loose`` were solved, with bounds that a better plan may raise; ``aside`` share devices and are
    not solved. ``proved``: all layouts done with are this slow, the leader apart; ``by_bound`` the
    same of those only that are taken by their bounds. ``nearest``: of those that do not fit, the
    one that misses least. ``families``: those with members taken.
    """

    costs_of: Callable[[Layout], PipelineCosts]
    regimes_of: Regimes
    relative_gap: float
    deadline: float
    thorough: bool
    floor: float
    ceiling: float
    most_solved: float
    tell: Callable[[Progress], None] | None
    frontier: Frontier
    open: list[Open] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    leader: Open | None = None
    loose: list[Open] = field(default_factory=list)
    aside: list[Open] = field(default_factory=list)
    nearest: tuple[Layout, Infeasible] | None = None
    by_bound: float = math.inf
    proved: float = math.inf
    losers: list[tuple[tuple[int, ...], Loser]] = field(default_factory=list)
    ends: dict[tuple[int, ...], set[tuple[End, Stage]]] = field(default_factory=dict)
    begun: set[tuple[int, ...]] = field(default_factory=set)
    families: dict[int, Family] = field(default_factory=dict)

    @property
    def found(self) -> Found | None:
        """The best plan so far, with its layout."""
        return self.leader.found if self.leader else None

    @property
    def best(self) -> float:
        """Its seconds, or what is known to be of no use if that is less."""
        found = self.found.partition.makespan if self.found else math.inf
        return min(found, self.ceiling)

    @property
    def limit(self) -> float:
        """What a bound must stay below for its layout to matter."""
        return self.best * (1 - self.relative_gap)

    def out_of_time(self) -> bool:
        """Whether to stop: no time is left, or nothing can be faster."""
        reached = self.best <= self.floor * (1 + EXACT)
        return reached or time.monotonic() >= self.deadline

    def is_enough(self) -> bool:
        """Whether as many layouts were solved as were asked for."""
        return len(self.begun) >= self.most_solved

    def next_bound(self) -> float:
        """Least bound of what is in question."""
        return self.open[0].bound if self.open else math.inf

    def under_way(self) -> dict[Head, float]:
        """The least bound of every head whose regimes are not all done with."""
        found: dict[Head, float] = {}
        leader = () if self.leader is None else (self.leader,)
        for entry in (*self.open, *self.aside, *self.loose, *leader):
            found[entry.head] = min(found.get(entry.head, math.inf), entry.bound)
        return found

    def inherited(self, head: Head, under_way: dict[Head, float]) -> float:
        """What is proved of a member's other variants: the first one's, less what they gain."""
        lower = min(head.lower, under_way.get(head, math.inf))
        if head.gain is None:
            surpassed = gain(head.costs, longest=self.longest(head.layout))
        else:
            surpassed = head.gain
        return max(min(lower - surpassed, self.best), head.floor)

    def longest(self, layout: Layout) -> float:
        """Seconds beyond which a plan does not matter, where a stage has a device of its own."""
        return self.best if layout.virtual_stages == 1 else math.inf

    def end(self, layout: Open, how: End, lower: float, stage: Stage | None = None) -> None:
        """Enter what became of a regime of a layout, and what is proved of it."""
        layout.head.open -= 1
        layout.head.lower = min(layout.head.lower, lower)
        self.ends.setdefault(layout.place, set()).add((how, stage or layout.stage))

    def lose(self, place: tuple[int, ...], loser: Loser, apart: bool = False) -> None:
        """Enter a layout that does not lead; ``apart``: it was taken by an estimate."""
        self.losers.append((place, loser))
        self.proved = min(self.proved, loser.lower_bound)
        if not apart:
            self.by_bound = min(self.by_bound, loser.lower_bound)

    def nearer(self, layout: Layout, result: Infeasible) -> None:
        """Remember the layout that misses least memory."""
        if self.nearest is None or result.missing_bytes < self.nearest[1].missing_bytes:
            self.nearest = (layout, result)

    def report(self) -> None:
        """Tell the caller how far the search is."""
        if self.tell is not None:
            incumbent = self.best if self.found else None
            bound = min(self.next_bound(), self.frontier.bound, self.best)
            done, considered = len(self.begun), self.frontier.considered
            self.tell(Progress(incumbent, bound, done, considered))
