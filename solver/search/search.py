"""The search over layouts: the best first, until no other can be better.

Bounds of a layout come in stages, each dearer and tighter than the last: from the work, the bubble
and the memory of its family (``frontier.py``, ``bound.py``), from its own costs, then from the cuts
that the memory allows. The layout of least bound is always next: it gets its next bound, or if it
has them all it is solved exactly, and given up as soon as its own bound passes the best plan found.
What was given up, and at which bound, is the proof.

Two kinds of layouts are treated apart. *Variants* of a layout, which shard states over fewer
replicas, can be faster only by what communication of states the first variant shows; unless that
could make one the best they are not looked at. Where that is much, all variants are bounded at once
(``envelope.py``), and halved as long as they might be better. Layouts *whose stages share devices*
have weak bounds, so where there are many only some are tried, chosen by an estimate before all
others; the rest stays in the proof with its bound, and so in the gap.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from heapq import heapify, heappop, heappush

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.layouts.family import Family, listed
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Menu
from solver.partition.outcome import EXACT, Infeasible, Partition
from solver.partition.problem import Problem, menu_on, partition_problem
from solver.partition.regime import Regime
from solver.partition.shared import SharedProblem
from solver.partition.solve import PartitionProblem
from solver.progress import Progress
from solver.recompute.frontier import Frontier as Choices
from solver.schedules import Schedule, Work, make_schedule, recomputing_ahead, schedule_kind
from solver.search.bound import bubble_bound, passes_bound, quick_bound
from solver.search.envelope import Variant, envelope, enveloped, halves, leaders
from solver.search.frontier import SHARED_FIELDS, Frontier
from solver.search.outcome import Found, Loser, Outcome, Stage
from solver.search.rough import RoughTotals
from solver.search.variants import gain, no_better

__all__ = ["Found", "Loser", "Outcome", "one_regime", "search", "standing"]

FEW = 6
"""Layouts that share devices up to which all are solved like any other."""

ESTIMATED, TRIED, IMPROVED = 16, 2, 1
"""Else: how many of each schedule get costs of their own, how many of these a first plan, and how
many of all a better one."""

MOST_PLANS = 200
"""Plans that are compared to make such a layout's plan better."""

WORTH, LIKELY = 0.01, 2.0
"""Variants are bounded at once where they might gain this share of the bound, and plans are likely
to be within that multiple of it."""

TURN = 0.1
"""Of the time limit, what one layout gets before all others have had their turn."""

Regimes = Callable[[Layout, PipelineCosts], Sequence[Regime]]
"""The ways in which a plan of a layout may be made; none where it cannot be made at all."""


def one_regime(menu_of: Callable[[PipelineCosts], Menu], *, ahead: bool = False) -> Regimes:
    """Every plan is made with the one menu of its costs; ``ahead``: as ``Regime``."""
    return lambda layout, costs: [Regime(menu_of, ahead=ahead)]  # noqa: ARG005


def search(
    families: tuple[Family, ...],
    costs_of: Callable[[Layout], PipelineCosts],
    regimes_of: Regimes,
    *,
    relative_gap: float,
    time_limit_seconds: float,
    floor_seconds: float = 0.0,
    ceiling_seconds: float = math.inf,
    inputs_kept: bool = True,
    rough: RoughTotals | None = None,
    most_solved: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """The fastest plan over all layouts, their regimes, recompute choices and partitions.

    A layout's ``costs_of`` may be called twice; it should be cheap or remember. Of its regimes the
    first is the one that needs least memory. ``floor_seconds``: what no plan is below, as far as it
    is known beforehand; the search ends where it is reached. ``ceiling_seconds``: a plan as slow as
    that is of no use, as one is known; where nothing is faster, nothing is found.
    ``inputs_kept``: every layer keeps its input, whatever the regime. ``rough``: what families come
    to at least before their costs are known; None: all costs are asked for at once.
    ``most_solved``: after so many layouts the search ends; what might still be better is the
    outcome's ``rest``.
    """
    limits = (relative_gap, time_limit_seconds, floor_seconds, ceiling_seconds)
    asked = (families, costs_of, regimes_of)
    return _Search(*asked, *limits, inputs_kept, rough, most_solved, progress).run()


class _End(IntEnum):
    """What became of a regime; of a layout, the greatest among its regimes."""

    INFEASIBLE = 0
    PRUNED = 1
    SOLVED = 2
    UNFINISHED = 3


@dataclass(eq=False)
class _Head:
    """A variant of a member that is looked at, and the variants that follow from it.

    ``others`` are numbered. ``floor``: none of their plans is below. ``lower`` is the least bound
    at which a regime of it ended; ``open`` counts regimes under way. ``gain``: seconds by which no
    other variant is faster; None: not looked at one by one yet. ``together``: the variants whose
    envelope ``costs`` is, ``layout`` and ``others`` among them; they are halved before any plan is
    made.
    """

    place: tuple[int, ...]
    layout: Layout
    others: tuple[tuple[int, Layout], ...]
    floor: float
    costs: PipelineCosts
    shared: bool = False
    lower: float = math.inf
    open: int = 0
    gain: float | None = None
    together: tuple[Variant, ...] = ()


@dataclass(order=True)
class _Open:
    """A layout in question, or one of its regimes, ordered by its bound so far.

    ``found``: its best plan, once it was solved; ``cutoff``: what its plans had to be faster
    than then; ``cut_short``: its turn was over before it was done with.
    """

    bound: float
    place: tuple[int, ...]
    number: int
    layout: Layout = field(compare=False)
    costs: PipelineCosts = field(compare=False)
    head: _Head = field(compare=False)
    stage: Stage = field(compare=False, default=Stage.WORK)
    regime: Regime | None = field(compare=False, default=None)
    problem: Problem | None = field(compare=False, default=None)
    menu: Menu | None = field(compare=False, default=None)
    found: Found | None = field(compare=False, default=None)
    cutoff: float = field(compare=False, default=math.inf)
    cut_short: bool = field(compare=False, default=False)


class _Search:
    def __init__(
        self,
        families: tuple[Family, ...],
        costs_of: Callable[[Layout], PipelineCosts],
        regimes_of: Regimes,
        relative_gap: float,
        time_limit_seconds: float,
        floor_seconds: float,
        ceiling_seconds: float,
        inputs_kept: bool,
        rough: RoughTotals | None,
        most_solved: int | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._costs_of, self._regimes_of = costs_of, regimes_of
        self._ceiling = ceiling_seconds
        self._most_solved = math.inf if most_solved is None else most_solved
        self._relative_gap, self._floor, self._tell = relative_gap, floor_seconds, progress
        self._deadline = time.monotonic() + time_limit_seconds
        self._turn = TURN * time_limit_seconds
        limits = (floor_seconds, self._choices, inputs_kept, rough)
        self._frontier = Frontier(families, costs_of, *limits)
        self._frontier.begin(FEW)
        self._open: list[_Open] = []
        self._heads: list[_Head] = []
        self._leader: _Open | None = None
        self._loose: list[_Open] = []  # solved, with bounds that a better plan may raise
        self._nearest: tuple[Layout, Infeasible] | None = None
        self._by_bound = math.inf  # the same of those only that are taken by their bounds
        self._proved = math.inf  # all layouts done with are this slow, the winner's bound apart
        self._losers: list[tuple[tuple[int, ...], Loser]] = []
        self._ends: dict[tuple[int, ...], set[tuple[_End, Stage]]] = {}
        self._begun: set[tuple[int, ...]] = set()
        self._families: dict[int, Family] = {}  # those with members that were taken
        self._aside: list[_Open] = []  # layouts that share devices and are not solved

    @property
    def _found(self) -> Found | None:
        return self._leader.found if self._leader else None

    @property
    def _best(self) -> float:
        found = self._found.partition.makespan if self._found else math.inf
        return min(found, self._ceiling)

    @property
    def _limit(self) -> float:
        """What a bound must stay below for its layout to matter."""
        return self._best * (1 - self._relative_gap)

    def run(self) -> Outcome:
        """Go on while some layout might still be better, and time is left."""
        first, shared = self._frontier.estimates()
        if shared < first:
            self._try_shared()
        self._prove()
        if shared >= first:
            self._try_shared()
            self._prove()
        rest = self._hand_over() if self._is_enough() and not self._out_of_time() else ()
        return replace(self._outcome(), rest=rest)

    def _prove(self) -> None:
        while not self._out_of_time() and not self._is_enough():
            if self._frontier.bound < min(self._next_bound(), self._limit):
                self._open_member(*self._frontier.take())
            elif self._open and self._open[0].bound < self._limit:
                self._report()
                self._step(heappop(self._open))
            elif not (
                self._solve_again(cut_short=False)
                or self._release_variants()
                or self._solve_again(cut_short=True)
            ):
                break

    def _choices(self, layout: Layout, costs: PipelineCosts) -> Callable[[int], Choices] | None:
        """What blocks of a kind choose among where every plan is made in the same one way.

        None where recompute may hide, so that it is not simply added to a stage's work.
        """
        regimes = self._regimes_of(layout, costs)
        if len(regimes) != 1 or regimes[0].ahead:
            return None
        choices = regimes[0].choices
        if choices is not None:
            return lambda kind: choices(costs.blocks[kind])
        menu = regimes[0].menu(costs)
        return menu.frontiers.__getitem__ if type(menu) is FreeMenu else None

    def _out_of_time(self) -> bool:
        reached = self._best <= self._floor * (1 + EXACT)
        return reached or time.monotonic() >= self._deadline

    def _is_enough(self) -> bool:
        return len(self._begun) >= self._most_solved

    def _next_bound(self) -> float:
        return self._open[0].bound if self._open else math.inf

    # -- members and variants ---------------------------------------------------------------

    def _open_member(
        self, family: Family, position: int, bound: float, place: tuple[int, int]
    ) -> None:
        """Enter a member with costs of its own: the first variant of each rank order.

        A rank order in which nothing takes less time follows from the one before.
        """
        self._families[place[0]] = family
        by_order: dict[str, list[tuple[int, Layout]]] = {}
        for numbered in enumerate(family.variants(position)):
            by_order.setdefault(numbered[1].rank_order, []).append(numbered)
        heads: list[_Head] = []
        for number, variants in enumerate(by_order.values()):
            (at, first), *others = variants
            costs = self._costs_of(first)
            leading = next((head for head in heads if no_better(costs, head.costs)), None)
            if leading is not None:
                leading.others += tuple(variants)
                continue
            heads.append(_Head((*place, number, at), first, tuple(others), bound, costs))
        for head in heads:
            together = self._together(head)
            if together:
                self._enter_half(head.place[:-1], together, bound)
            else:
                self._heads.append(head)
                self._enter(head)

    def _together(self, head: _Head) -> list[Variant]:
        """All variants of a head, where it pays to bound them at once; else none."""
        alone = head.layout.virtual_stages == 1
        longest = min(self._best, LIKELY * head.floor) if alone else math.inf
        surpassed = gain(head.costs, longest=longest)
        if not head.others or head.costs.devices or surpassed < WORTH * head.floor:
            return []
        if len(self._regimes_of(head.layout, head.costs)) != 1:
            return []
        own = Variant(head.place[-1], head.layout, head.costs)
        others = [Variant(at, layout, self._costs_of(layout)) for at, layout in head.others]
        found = leaders([own, *others])
        return found if enveloped(found) else []

    def _enter_half(
        self, place: tuple[int, ...], variants: Sequence[Variant], floor: float
    ) -> None:
        """Enter variants by their envelope, or the only one as it is."""
        first, *rest = variants
        others = first.followers
        for one in rest:
            others += ((one.number, one.layout), *one.followers)
        costs = envelope(variants) if rest else first.costs
        head = _Head((*place, first.number), first.layout, others, floor, costs, gain=0.0)
        head.together = tuple(variants) if rest else ()
        self._heads.append(head)
        self._enter(head)

    def _halve(self, entry: _Open) -> None:
        """Bound the variants of an envelope more tightly."""
        self._heads.remove(entry.head)
        for half in halves(entry.head.together):
            self._enter_half(entry.place[:-1], half, entry.bound)

    def _enter(self, head: _Head, to: list[_Open] | None = None) -> None:
        layout, costs = head.layout, head.costs
        head.open += 1
        shape = (layout.schedule, layout.pipeline_parallel, layout.virtual_stages)
        head.floor = max(head.floor, passes_bound(costs, *shape))
        quick = max(head.floor, _quick_bound(layout, costs))
        bound = max(quick, bubble_bound(costs, *shape))
        stage = Stage.WORK if quick >= bound else Stage.BUBBLE
        entry = _Open(bound, head.place, 0, layout, costs, head, stage)
        if to is None:
            heappush(self._open, entry)
        else:
            to.append(entry)

    def _release_variants(self) -> bool:
        """Enter the variants that could still be better than the best plan; whether there are."""
        released = False
        under_way = self._under_way()
        waiting = {entry.head for entry in self._loose}
        for head in list(self._heads):
            if head in waiting:
                continue
            if head.others and not head.shared and self._inherited(head, under_way) < self._limit:
                released |= self._release(head, min(head.lower, under_way.get(head, math.inf)))
        return released

    def _release(self, head: _Head, lower: float) -> bool:
        """Look at the other variants of a member one by one, and enter those that may be better."""
        variants, head.others, head.gain = head.others, (), 0.0
        heads = [head]
        for number, layout in variants:
            costs = self._costs_of(layout)
            leading = next((known for known in heads if no_better(costs, known.costs)), None)
            surpassed = gain(head.costs, costs, longest=self._longest(layout))
            floor = max(lower - surpassed, head.floor)
            if leading is not None:
                leading.others += ((number, layout),)
            elif floor >= self._limit:
                head.others += ((number, layout),)
                head.gain = max(head.gain, surpassed)
            else:
                place = (*head.place[:-1], number)
                heads.append(_Head(place, layout, (), floor, costs, gain=0.0))
                self._enter(heads[-1])
        self._heads += heads[1:]
        return len(heads) > 1

    def _longest(self, layout: Layout) -> float:
        """Seconds beyond which a plan does not matter, where a stage has a device of its own."""
        return self._best if layout.virtual_stages == 1 else math.inf

    def _under_way(self) -> dict[_Head, float]:
        """The least bound of every head whose regimes are not all done with."""
        found: dict[_Head, float] = {}
        leader = () if self._leader is None else (self._leader,)
        for entry in (*self._open, *self._aside, *self._loose, *leader):
            found[entry.head] = min(found.get(entry.head, math.inf), entry.bound)
        return found

    def _inherited(self, head: _Head, under_way: dict[_Head, float]) -> float:
        """What is proved of a member's other variants: the first one's, less what they gain."""
        lower = min(head.lower, under_way.get(head, math.inf))
        if head.gain is None:
            surpassed = gain(head.costs, longest=self._longest(head.layout))
        else:
            surpassed = head.gain
        return max(min(lower - surpassed, self._best), head.floor)

    # -- layouts whose stages share devices -------------------------------------------------

    def _try_shared(self) -> None:
        """Plans for the most promising of the layouts that share devices, where they are many."""
        entries = []
        guesses: dict[_Head, float] = {}
        promising = self._frontier.promising(ESTIMATED, self._best)
        for family, position, bound, place, guess in promising:
            self._families[place[0]] = family
            first = family.variants(position)[0]
            costs = self._costs_of(first)
            others = tuple(enumerate(family.variants(position)))[1:]
            head = _Head((*place, 0, 0), first, others, bound, costs, shared=True)
            self._heads.append(head)
            self._enter(head, self._aside)
            # Costs of its own add sends and their share in every pass to the guess.
            guesses[head] = guess + self._aside[-1].bound - bound
        self._aside.sort(key=lambda entry: (guesses[entry.head], entry.place))
        for entry in _first_of_each(self._aside):
            regimes = self._regimes_of(entry.layout, entry.costs)
            if regimes and not self._out_of_time():
                entries.append(self._with_first_plan(entry, regimes[0]))
        made = [(made, entry) for made, entry in entries if made is not None]
        made.sort(key=lambda pair: (pair[0], pair[1].place))
        for _, entry in made[:IMPROVED]:
            if not self._out_of_time():
                self._improve(entry)
        self._aside = [entry for entry in self._aside if entry.place not in self._begun]

    def _with_first_plan(self, entry: _Open, regime: Regime) -> tuple[float | None, _Open]:
        """A quick plan of a layout, and what its bound comes to with the cuts in it."""
        schedule = _schedule(entry.layout, entry.costs, regime)
        entry.regime, entry.menu = regime, menu_on(regime.menu(entry.costs), schedule)
        entry.problem = partition_problem(entry.costs, entry.menu, schedule, regime)
        entry.bound = max(entry.bound, entry.problem.bound)
        if isinstance(entry.problem, SharedProblem):
            return entry.problem.first_makespan(), entry
        self._improve(entry)
        return None, entry

    def _improve(self, entry: _Open) -> None:
        assert entry.problem is not None
        assert entry.regime is not None
        self._report()
        if isinstance(entry.problem, SharedProblem):
            entry.problem.most_plans = MOST_PLANS
        self._solve(entry, entry.problem, entry.menu, entry.regime)

    # -- layouts ----------------------------------------------------------------------------

    def _step(self, layout: _Open) -> None:
        if layout.regime is None:
            self._divide(layout)
        elif layout.problem is None:
            self._bound(layout, layout.regime)
        elif layout.head.together:
            self._halve(layout)
        else:
            self._solve(layout, layout.problem, layout.menu, layout.regime)

    def _divide(self, layout: _Open) -> None:
        """One entry for every regime, each with what it recomputes at least in its bound."""
        regimes = self._regimes_of(layout.layout, layout.costs)
        layout.head.open += len(regimes) - 1
        if not regimes:
            self._end(layout, _End.INFEASIBLE, math.inf)
        for number, regime in enumerate(regimes):
            bound = max(layout.bound, regime.bound)
            if regime.recompute_seconds:
                bound = max(
                    bound, _quick_bound(layout.layout, layout.costs, regime.recompute_seconds)
                )
            heappush(self._open, replace(layout, bound=bound, number=number, regime=regime))

    def _bound(self, layout: _Open, regime: Regime) -> None:
        """The next bound: the regime's own, then cuts that the memory allows."""
        schedule = _schedule(layout.layout, layout.costs, regime)
        if regime.lower is not None:
            layout.bound = max(layout.bound, regime.lower(schedule))
            if layout.bound >= self._limit:
                heappush(self._open, layout)
                return
        layout.menu = menu_on(regime.menu(layout.costs), schedule)
        layout.problem = partition_problem(layout.costs, layout.menu, schedule, regime)
        if layout.problem.bound > layout.bound:
            layout.bound, layout.stage = layout.problem.bound, Stage.CUTS
        heappush(self._open, layout)

    def _end(self, layout: _Open, how: _End, lower: float, stage: Stage | None = None) -> None:
        layout.head.open -= 1
        layout.head.lower = min(layout.head.lower, lower)
        self._ends.setdefault(layout.place, set()).add((how, stage or layout.stage))

    def _solve(
        self,
        layout: _Open,
        problem: Problem,
        menu: Menu | None,
        regime: Regime,
    ) -> None:
        assert menu is not None
        self._begun.add(layout.place)
        again = layout.cutoff < math.inf
        layout.cutoff = self._limit
        started = time.monotonic()
        left = max(self._deadline - started, 0.0)
        result = problem.solve(
            relative_gap=self._relative_gap,
            time_limit_seconds=left if again else min(left, self._turn),
            cutoff=self._limit,
        )
        layout.cut_short = not again and time.monotonic() - started >= self._turn
        if isinstance(result, Infeasible):
            self._end(layout, _End.INFEASIBLE, math.inf)
            self._nearer(layout.layout, result)
            return
        layout.bound = max(result.lower_bound, layout.bound)
        if isinstance(result, Partition):
            layout.bound = min(layout.bound, result.makespan)
            result = replace(result, lower_bound=layout.bound)
            found = Found(layout.layout, layout.costs, menu, problem.schedule, result, regime)
            layout.found = found
            if result.makespan < self._ceiling and _better(found, self._found):
                behind, self._leader = self._leader, layout
                if behind is None:
                    return
                layout = behind
        self._put_by(layout)

    def _put_by(self, layout: _Open) -> None:
        """Have done with a layout that does not lead, unless a better plan may tell more of it."""
        if layout is self._leader:
            return
        if layout.bound < self._limit and isinstance(layout.problem, PartitionProblem):
            self._loose.append(layout)
        else:
            self._conclude(layout)

    def _solve_again(self, *, cut_short: bool) -> bool:
        """Solve those whose bounds leave them open, where a better plan than then is known.

        The leader itself is among them: nothing may be faster by more than the gap asked for. Those
        whose turn was ``cut_short`` come last of all.
        """
        waiting, self._loose = self._loose, []
        again = False
        leader = self._leader
        if leader is not None and isinstance(leader.problem, PartitionProblem):
            waiting.append(leader)
        for layout in sorted(waiting):
            better = self._limit < layout.cutoff * (1 - EXACT)
            if layout.cut_short and not cut_short:
                if layout is not self._leader:
                    self._loose.append(layout)
                continue
            better |= layout.cut_short
            if layout.bound < self._limit and better and not self._out_of_time():
                assert layout.problem is not None
                assert layout.regime is not None
                self._solve(layout, layout.problem, layout.menu, layout.regime)
                again = True
            elif layout is not self._leader:
                self._conclude(layout)
        return again

    def _conclude(self, layout: _Open) -> None:
        """Enter a layout's bound in the proof, and its plan among those that lost."""
        makespan = None if layout.found is None else layout.found.partition.makespan
        if layout.found is not None:
            self._end(layout, _End.SOLVED, layout.bound)
        else:
            how = _End.PRUNED if layout.bound >= self._limit else _End.UNFINISHED
            self._end(layout, how, layout.bound, Stage.PARTITION)
        self._lose(layout.place, Loser(layout.layout, makespan, layout.bound))

    def _lose(self, place: tuple[int, ...], loser: Loser, apart: bool = False) -> None:
        self._losers.append((place, loser))
        self._proved = min(self._proved, loser.lower_bound)
        if not apart:
            self._by_bound = min(self._by_bound, loser.lower_bound)

    def _nearer(self, layout: Layout, result: Infeasible) -> None:
        """Remember the layout that misses least memory."""
        if self._nearest is None or result.missing_bytes < self._nearest[1].missing_bytes:
            self._nearest = (layout, result)

    def _report(self) -> None:
        if self._tell is not None:
            incumbent = self._best if self._found else None
            bound = min(self._next_bound(), self._frontier.bound, self._best)
            done, considered = len(self._begun), self._frontier.considered
            self._tell(Progress(incumbent, bound, done, considered))

    # -- what others go on with -------------------------------------------------------------

    def _hand_over(self) -> tuple[tuple[Family, int], ...]:
        """The members that might still be better, least bound first.

        They leave this search with all their variants, whatever was found out about them.
        """
        while self._solve_again(cut_short=True):
            pass
        under_way = self._under_way()
        bounds: dict[tuple[int, int], float] = {}
        for entry in (*self._open, *self._aside):
            _lower(bounds, entry.place, entry.bound)
        for head in self._heads:
            if head.others and not head.shared:
                _lower(bounds, head.place, self._inherited(head, under_way))
        handed = {place: bound for place, bound in bounds.items() if bound < self._limit}
        while self._frontier.bound < self._limit:
            family, _, bound, place = self._frontier.take()
            self._families[place[0]] = family
            handed[place] = bound
        self._leave(set(handed))
        order = sorted(handed, key=lambda place: (handed[place], place))
        return tuple(
            each
            for number, position in order
            for each in self._without_winner(self._families[number], position)
        )

    def _without_winner(self, family: Family, position: int) -> list[tuple[Family, int]]:
        """A member, or if the winner is one of its variants the others one by one."""
        variants = family.variants(position)
        known = self._found.layout if self._found else None
        if known not in variants:
            return [(family, position)]
        others = [variant for variant in variants if variant != known]
        counts = [int(family.micro_batches[position])] * len(others)
        return [(alone, 0) for alone in listed(others, counts)]

    def _leave(self, members: set[tuple[int, int]]) -> None:
        """Forget all about some members, the winner apart."""
        self._open = [entry for entry in self._open if entry.place[:2] not in members]
        heapify(self._open)
        self._aside = [entry for entry in self._aside if entry.place[:2] not in members]
        self._heads = [head for head in self._heads if head.place[:2] not in members]
        self._losers = [each for each in self._losers if each[0][:2] not in members]
        gone = {place for place in (*self._begun, *self._ends) if place[:2] in members}
        if self._leader is not None:
            gone.discard(self._leader.place)
        self._begun -= gone
        self._ends = {place: ends for place, ends in self._ends.items() if place not in gone}

    # -- the end ----------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        misfits = self._close_open()
        for layout in self._loose:
            self._conclude(layout)
        if self._leader is not None:
            self._end(self._leader, _End.SOLVED, self._leader.bound)
        pruned_by, infeasible, unfinished, (least, by_bound) = self._frontier.ends(self._limit)
        pruned_by[Stage.MEMORY] = infeasible
        self._proved = min(self._proved, least)
        self._by_bound = min(self._by_bound, by_bound)
        bounds = list(self._frontier.least())
        for head, lower in self._close_variants(pruned_by):
            how = _how(lower, self._limit)
            infeasible += len(head.others) * (how is _End.INFEASIBLE)
            unfinished += len(head.others) * (how is _End.UNFINISHED)
            self._proved = min(self._proved, lower)
            if not head.shared:
                self._by_bound = min(self._by_bound, lower)
            bounds += [item for _, layout in head.others for item in _of_fields(layout, lower)]
        for ends in self._ends.values():
            how, stage = max(ends)
            infeasible += how is _End.INFEASIBLE
            unfinished += how is _End.UNFINISHED
            pruned_by[stage] += how is _End.PRUNED
        lower = self._proved
        if self._leader is not None:
            lower = min(lower, self._leader.bound)
            bounds += _of_fields(self._leader.layout, self._leader.bound)
        elif not unfinished and math.isinf(self._ceiling):
            self._find_nearest(misfits)
        for _, loser in self._losers:
            bounds += _of_fields(loser.layout, loser.lower_bound)
        return Outcome(
            found=self._found,
            lower_bound=lower,
            by_bound=self._by_bound,
            nearest=self._nearest,
            considered=self._frontier.considered,
            pruned=pruned_by.total() - pruned_by[Stage.MEMORY],
            infeasible=infeasible,
            unfinished=unfinished,
            losers=self._losing_layouts(),
            pruned_by={stage: pruned_by[stage] for stage in Stage},
            least=_least(bounds),
            solved=len(self._begun),
        )

    def _close_open(self) -> list[_Open]:
        """End what is still open; of it, what cannot fit."""
        misfits = []
        for entry in (*self._open, *self._aside):
            how = _how(entry.bound, self._limit)
            self._end(entry, how, entry.bound)
            if how is _End.INFEASIBLE:
                misfits.append(entry)
            else:
                loser = Loser(entry.layout, None, entry.bound)
                self._lose(entry.place, loser, entry.head.shared)
        self._open, self._aside = [], []
        return misfits

    def _close_variants(self, pruned_by: Counter[Stage]) -> list[tuple[_Head, float]]:
        """The members whose other variants were never looked at, with what is proved of those."""
        found = []
        for head in self._heads:
            if head.others:
                lower = self._inherited(head, {})
                if _how(lower, self._limit) is _End.PRUNED:
                    _, stage = max(self._ends[head.place])
                    pruned_by[stage] += len(head.others)
                found.append((head, lower))
        return found

    def _losing_layouts(self) -> tuple[Loser, ...]:
        """What became of every layout but the winner's, over all its regimes, best first."""
        of_layout: dict[tuple[int, ...], list[Loser]] = {}
        for place, loser in self._losers:
            if self._leader is None or place != self._leader.place:
                of_layout.setdefault(place, []).append(loser)
        losers = [_together(losers) for losers in of_layout.values()]
        losers += [Loser(layout, None, bound) for layout, bound in self._frontier.nearest(SHOWN)]
        return tuple(sorted(losers, key=standing))

    def _find_nearest(self, misfits: list[_Open]) -> None:
        """Of the layouts that cannot fit, the one that misses least memory.

        Those whose cuts were tried missed less than those that could be told at once.
        """
        first = [entry for entry in misfits if entry.number == 0]
        for entry in sorted(first, key=lambda entry: entry.place)[:MOST_MISFITS]:
            self._miss(entry.layout, entry.costs, entry.problem)
        if self._nearest is None:
            for layout in self._frontier.misfits(MOST_MISFITS):
                self._miss(layout, self._costs_of(layout), None)

    def _miss(self, layout: Layout, costs: PipelineCosts, problem: Problem | None) -> None:
        if problem is None:
            regime, *_ = self._regimes_of(layout, costs) or (None,)
            if regime is None:
                return
            schedule = _schedule(layout, costs, regime)
            menu = menu_on(regime.menu(costs), schedule)
            problem = partition_problem(costs, menu, schedule, regime)
        result = problem.solve()
        if isinstance(result, Infeasible):
            self._nearer(layout, result)


SHOWN = 16
"""Layouts that were not looked at one by one of which the bound is told."""

MOST_MISFITS = 16
"""Layouts that cannot fit among which the one that misses least is looked for."""


def _first_of_each(entries: list[_Open]) -> list[_Open]:
    """The first few of every schedule, in their order."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        seen[entry.layout.schedule] += 1
        if seen[entry.layout.schedule] <= TRIED:
            found.append(entry)
    return found


def _lower(bounds: dict[tuple[int, int], float], place: tuple[int, ...], bound: float) -> None:
    """Let a bound of the member at a place count."""
    member = (place[0], place[1])
    bounds[member] = min(bound, bounds.get(member, math.inf))


def _how(bound: float, limit: float) -> _End:
    if not math.isfinite(bound):
        return _End.INFEASIBLE
    return _End.UNFINISHED if bound < limit * (1 - EXACT) else _End.PRUNED


def _better(candidate: Found, known: Found | None) -> bool:
    """Faster, or as fast on fewer devices."""
    if known is None:
        return True
    one, other = candidate.partition.makespan, known.partition.makespan
    if abs(one - other) <= EXACT * other:
        return candidate.layout.devices < known.layout.devices
    return one < other


def _of_fields(layout: Layout, bound: float) -> list[tuple[str, int | str | bool, float]]:
    return [(name, getattr(layout, name), bound) for name in CHOICE_FIELDS]


CHOICE_FIELDS = (
    *SHARED_FIELDS,
    "pipeline_parallel",
    "virtual_stages",
    "data_parallel",
)
"""Fields of which it is told what each value costs."""


def _least(
    bounds: list[tuple[str, int | str | bool, float]],
) -> dict[str, dict[int | str | bool, float]]:
    found: dict[str, dict[int | str | bool, float]] = {name: {} for name in CHOICE_FIELDS}
    for name, value, bound in bounds:
        if math.isfinite(bound):
            found[name][value] = min(bound, found[name].get(value, math.inf))
    return found


def _together(losers: list[Loser]) -> Loser:
    """One layout's regimes: the best plan made under any, and the bound of all."""
    made = [loser.makespan for loser in losers if loser.makespan is not None]
    lower = min(loser.lower_bound for loser in losers)
    return Loser(losers[0].layout, min(made, default=None), lower)


def standing(loser: Loser) -> tuple[float, bool, Layout]:
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
        shared=layout.virtual_stages > 1 or kind.even,
    )


def _schedule(layout: Layout, costs: PipelineCosts, regime: Regime) -> Schedule:
    schedule = make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        costs.micro_batches,
        layout.virtual_stages,
        layout.interleaving_group,
    )
    return recomputing_ahead(schedule) if regime.ahead and regime.splits is None else schedule
