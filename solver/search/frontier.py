"""The layouts of all families that were not looked at one by one, and what is proved of them.

A family of many members is bounded as a whole: first without costs of its own (``rough.py``), when
it is its turn from the costs of its exemplar, then with what its memory asks it to recompute. Its
members leave in the order of their bounds, when it is their turn; what stays is counted and bounded
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heapreplace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.layouts.family import Family
from solver.recompute.frontier import Frontier as Choices
from solver.search.bound import OWN_PATHS_KNOWN
from solver.search.choice_bounds import ChoiceBounds
from solver.search.family_bounds import FamilyBounds
from solver.search.members import Index, Members
from solver.search.outcome import Stage
from solver.search.rough import RoughTotals
from solver.search.totals import Bools, Floats, Totals

ALIKE = 2
"""Members that differ in chunks and schedule only of which estimates propose the best."""


class _Tightness(IntEnum):
    """What a family's bounds come from."""

    ROUGH = 0
    EXEMPLAR = 1
    RECOMPUTE = 2


@dataclass(eq=False)
class _Group:
    """A family with its bounds; ``left`` says which members have not been taken."""

    family: Family
    members: Members
    bounds: FamilyBounds
    counts: Index
    left: Bools
    apart: Bools
    tightness: _Tightness
    costs: PipelineCosts | None = None
    queue: list[int] = field(default_factory=list)

    @property
    def fits(self) -> Bools:
        """Members left whose memory might suffice."""
        return np.asarray(self.left & self.bounds.fits)


class Frontier:
    """All members of all families, taken one by one.

    Members whose stages share a device (``shared``) are not taken by bound: their bounds are weak,
    so ``promising`` proposes some of them by an estimate.
    """

    def __init__(
        self,
        families: tuple[Family, ...],
        costs_of: Callable[[Layout], PipelineCosts],
        floor_seconds: float,
        choices_of: Callable[[Layout, PipelineCosts], Callable[[int], Choices] | None],
        inputs_kept: bool,
        rough: RoughTotals | None = None,
    ) -> None:
        self._costs_of, self._choices_of = costs_of, choices_of
        self._floor, self._inputs_kept = floor_seconds, inputs_kept
        self._groups: list[_Group] = []
        self.considered = 0
        for family in families:
            counts = family.counts()
            self.considered += int(counts.sum())
            totals = None if rough is None else rough.of(family)
            costs = None
            if totals is None:
                costs = costs_of(family.exemplar)
                totals = Totals.of(costs)
            members = Members.of(family)
            group = _Group(
                family=family,
                members=members,
                bounds=self._bounds(members, totals),
                counts=counts,
                left=counts > 0,
                apart=_apart(family),
                tightness=_Tightness.ROUGH if costs is None else _Tightness.EXEMPLAR,
                costs=costs,
            )
            self._groups.append(group)
        self._shared = sum(int(group.apart.sum()) for group in self._groups)
        self._few = 0
        self._heap: list[tuple[float, int]] = []

    def _bounds(self, members: Members, totals: Totals) -> FamilyBounds:
        bounds = FamilyBounds(members, totals, self._inputs_kept)
        bounds.work = np.maximum(bounds.work, self._floor)
        bounds.bubble = np.maximum(bounds.bubble, self._floor)
        return bounds

    def begin(self, few: int) -> None:
        """Queue the members by their bounds, those that share devices only if they are few."""
        self._few = few
        for number, group in enumerate(self._groups):
            if self._shared <= few:
                group.apart = np.zeros_like(group.apart)
            self._queue(group)
            if group.queue:
                self._heap.append((self._next(group), number))
        heapify(self._heap)

    @staticmethod
    def _queue(group: _Group) -> None:
        """The members that are taken by bound: that of least bound last, of equals the first."""
        bounds = group.bounds.bubble
        group.queue = np.flatnonzero(group.fits & ~group.apart).tolist()
        group.queue.sort(key=lambda place: (-bounds[place], -place))

    def _tighten(self, group: _Group) -> None:
        """Bounds from the exemplar's own costs, or if these are known, from what memory asks."""
        if group.costs is None:
            group.costs = self._costs_of(group.family.exemplar)
            group.bounds = self._bounds(group.members, Totals.of(group.costs))
            group.tightness = _Tightness.EXEMPLAR
            return
        group.tightness = _Tightness.RECOMPUTE
        choices = self._choices_of(group.family.exemplar, group.costs)
        if choices is not None:
            group.bounds.add_recompute(choices)

    @property
    def bound(self) -> float:
        """Least bound of the queued members."""
        while self._heap:
            number = self._heap[0][1]
            group = self._groups[number]
            if group.tightness is _Tightness.RECOMPUTE:
                break
            self._tighten(group)
            self._queue(group)
            if group.queue:
                heapreplace(self._heap, (self._next(group), number))
            else:
                heappop(self._heap)
        return self._heap[0][0] if self._heap else np.inf

    def take(self) -> tuple[Family, int, float, tuple[int, int]]:
        """The queued member of least bound: its family, place, bound and number."""
        bound, number = self._heap[0]
        group = self._groups[number]
        place = group.queue.pop()
        group.left[place] = False
        if group.queue:
            heapreplace(self._heap, (self._next(group), number))
        else:
            heappop(self._heap)
        return group.family, place, bound, (number, place)

    def estimates(self) -> tuple[float, float]:
        """The least estimate of the queued members, and of those that share devices if these are
        not queued.
        """
        least = [np.inf, np.inf]
        if self._shared <= self._few:
            return 0.0, np.inf
        for group in self._groups:
            for which, mask in enumerate((group.fits & ~group.apart, group.fits & group.apart)):
                if mask.any():
                    found = float(self._estimate(group)[mask].min())
                    least[which] = min(least[which], found)
        return least[0], least[1]

    def _estimate(self, group: _Group) -> Floats:
        if group.costs is None:
            self._tighten(group)
            assert group.costs is not None
        return group.bounds.estimate(group.costs)

    def promising(
        self, most: int, best: float
    ) -> list[tuple[Family, int, float, tuple[int, int], float]]:
        """Members that share devices and might be good, as ``take``, with their estimates: at most
        so many of every schedule.

        None if all are queued, or none might be better than the best plan.
        """
        found: list[tuple[float, int, int]] = []
        if self._shared <= self._few:
            return []
        for number, group in enumerate(self._groups):
            if not (group.fits & group.apart).any():
                continue
            estimate = self._estimate(group)
            mask = group.fits & group.apart & (estimate < best)
            found += [
                (float(estimate[place]), number, place) for place in np.flatnonzero(mask).tolist()
            ]
        taken: list[tuple[Family, int, float, tuple[int, int], float]] = []
        near: Counter[tuple[int, int, str]] = Counter()
        of_schedule: Counter[str] = Counter()
        for guess, number, place in sorted(found):
            group = self._groups[number]
            schedule = group.family.schedule[place]
            key = (number, int(group.family.pipeline[place]), schedule)
            near[key] += 1
            of_schedule[schedule] += near[key] <= ALIKE
            if near[key] > ALIKE or of_schedule[schedule] > most:
                continue
            group.left[place] = False
            bound = float(group.bounds.bubble[place])
            taken.append((group.family, place, bound, (number, place), guess))
        return taken

    @staticmethod
    def _next(group: _Group) -> float:
        return float(group.bounds.bubble[group.queue[-1]])

    # -- what is left -----------------------------------------------------------------------

    def ends(self, limit: float) -> tuple[Counter[Stage], int, int, tuple[float, float]]:
        """Of the members left: pruned by each bound, infeasible, open below a limit, and the
        least bounds of those that may fit: of all, and of those taken by their bounds.
        """
        pruned: Counter[Stage] = Counter()
        infeasible = unfinished = 0
        least = by_bound = np.inf
        for group in self._groups:
            while group.tightness is not _Tightness.RECOMPUTE and (
                (group.bounds.bubble[group.fits] < limit).any()
            ):
                self._tighten(group)
            bounds, counts, left, fits = group.bounds, group.counts, group.left, group.fits
            infeasible += int(counts[left & ~bounds.fits].sum())
            work = fits & (bounds.work >= limit)
            bubble = fits & ~work & (bounds.bubble >= limit)
            pruned[Stage.WORK] += int(counts[work].sum())
            pruned[Stage.BUBBLE] += int(counts[bubble].sum())
            unfinished += int(counts[fits & ~work & ~bubble].sum())
            least = min(least, float(bounds.bubble[fits].min(initial=np.inf)))
            own = bounds.bubble[fits & ~group.apart]
            by_bound = min(by_bound, float(own.min(initial=np.inf)))
        return pruned, infeasible, unfinished, (least, by_bound)

    def add_to(self, of_choices: ChoiceBounds) -> None:
        """Tell the bounds of the members left."""
        for group in self._groups:
            places = np.flatnonzero(group.fits)
            if len(places):
                of_choices.add_members(group.family, places, group.bounds.bubble[places])

    def nearest(self, most: int) -> list[tuple[Layout, float]]:
        """Members left that may fit, those of least bound, with their bounds."""
        found = []
        for number, group in enumerate(self._groups):
            bound = group.bounds.bubble
            places = np.flatnonzero(group.fits & ~group.apart)
            best = places[np.argsort(bound[places], kind="stable")[:most]]
            found += [(float(bound[place]), number, place) for place in best.tolist()]
        return [
            (self._groups[number].family.variants(place)[0], bound)
            for bound, number, place in sorted(found)[:most]
        ]

    def misfits(self, most: int) -> list[Layout]:
        """Members left that cannot fit, those first that are said to miss least."""
        found = []
        for number, group in enumerate(self._groups):
            missing = group.bounds.missing
            places = np.flatnonzero(group.left & ~group.bounds.fits).tolist()
            found += [(float(missing[place]), number, place) for place in places]
        chosen = sorted(found)[:most]
        return [self._groups[number].family.variants(place)[0] for _, number, place in chosen]


def _apart(family: Family) -> Bools:
    """Members whose stages share devices, or of whose schedule no own-paths are known."""
    unknown = np.array([name not in OWN_PATHS_KNOWN for name in family.schedule])
    return np.asarray((family.virtual > 1) | unknown)
