"""The cheapest mix: which choice each block of a stage takes, for the stage's memory budget.

For a run with ``counts[k]`` blocks of kind k, in-flight f and capacity C::

    minimise   sum over k, c of  x[k, c] seconds[k, c]
    subject to sum over c of x[k, c] = counts[k]                                for every kind k
               f sum x[k, c] kept[k, c] + R <= C - states - reserved
               x[k, c] = 0 unless rebuilt[k, c] + working[k] <= R

over integers x and the values R that the working memory can take. For one value this is a
multiple-choice knapsack with equal items. Its Lagrangian bound is

    max over price m >= 0 of   sum over k of counts[k] phi[k](m)  -  m W,
    phi[k](m) = min over c of  seconds[k, c] + m kept[k, c],      W = (C - ... - R) / f

and only the slopes of the frontiers' convex hulls need be tried as prices. A choice whose reduced
cost exceeds the distance between a feasible mix and the bound cannot be part of a better mix;
``core.py`` decides among the few that are left.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.core import PRECISE, ROUNDING, Core
from solver.partition.few_mixes import MANY, FewMixes
from solver.partition.halves import Halves
from solver.partition.levels import levels
from solver.partition.menu import Asked, Bools, Floats, Index, Menu, Mix, Part
from solver.recompute.frontier import Frontier

SPANS = 8
"""Spans of working memory that the vectorised bounds tell apart."""

FEW_VALUES = 256
"""Values of working memory, times kinds, up to which all are bounded at once, not in spans."""

SIDE_BY_SIDE = 100_000
"""Runs, times values, times prices that are bounded at once."""

LARGE = 300
"""Choices of all kinds beyond which only the most promising values are decided."""

FEW = 8
"""How many values that is; the bound of the others then stands beside the mix."""


class FreeMenu(Menu):
    """Any choice for any block; cheapest mixes are remembered by signature and budget.

    The working memory takes many values in large blocks. A span of them is bounded by the choices
    of its largest value and the budget of its smallest, and only split where that bound is not
    beaten.

    Args:
        costs: The blocks (for their working bytes), capacity and reserved bytes.
        frontiers: One frontier per block kind.
    """

    def __init__(self, costs: PipelineCosts, frontiers: tuple[Frontier, ...]) -> None:
        self._reserved = costs.reserved_bytes
        self._budget = costs.capacity_bytes - costs.reserved_bytes
        self._frontiers = frontiers
        self._levels = levels(frontiers, tuple(block.working_bytes for block in costs.blocks))
        self._values, self._least = self._levels.values, self._levels.least
        large = sum(len(front.kept) for front in frontiers) > LARGE
        self._most_decisions = FEW if large else len(self._values)
        self._has_table = len(self._values) * len(frontiers) <= FEW_VALUES
        self._known: dict[Asked, Mix | None] = {}

    @property
    def frontiers(self) -> tuple[Frontier, ...]:
        """What each block kind may choose among."""
        return self._frontiers

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The least seconds of runs of few blocks; of others a Lagrangian bound."""
        best = np.full(len(counts), math.inf)
        distinct, which = _distinct(counts)
        many = np.zeros(len(distinct), dtype=bool)
        for at, run in enumerate(distinct):
            few = self._levels.few(run)
            if few is None:
                many[at] = True
            else:
                here = np.flatnonzero(which == at)
                best[here] = self._least_of(few, counts[here], states[here], in_flight[here])
        relaxed = np.flatnonzero(many[which])
        if len(relaxed):
            best[relaxed] = self._relaxed(counts[relaxed], states[relaxed], in_flight[relaxed])
        return best

    def knows(self, counts: Index) -> Bools:
        """Runs of few blocks."""
        distinct, which = _distinct(counts)
        few = [self._levels.few(run) is not None for run in distinct]
        return np.array(few, dtype=bool)[which]

    def _least_of(self, few: FewMixes, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Runs of equal counts: the first of their mixes that has room."""
        places, value = few.values
        rooms = self._room(self._values[places, None], counts, states, in_flight)
        fits = few.kept <= rooms.T[:, value] * (1 + ROUNDING)
        return np.where(fits.any(axis=1), few.seconds[fits.argmax(axis=1)], math.inf)

    def _relaxed(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The Lagrangian bound of every run, over a few spans of the working memory if need be."""
        if self._has_table and len(counts) * self._levels.table()[0].size <= SIDE_BY_SIDE:
            widths = self._room(self._values[:, None], counts, states, in_flight).T
            return np.asarray(self._by_value(counts, widths).min(axis=1))
        best = np.full(len(counts), math.inf)
        present = counts > 0
        for low, high in _spans(len(self._values)):
            level = self._levels.at(high)
            absent = ~np.isfinite(self._least[:, high])
            least = np.where(absent, 0.0, self._least[:, high])
            width = self._room(self._values[low], counts, states, in_flight)
            room = ~(present & absent).any(axis=1)
            room &= width * (1 + ROUNDING) >= counts @ least
            phi = np.where(absent[:, None], 0.0, level.phi)
            value = (counts[room] @ phi - width[room, None] * level.prices).max(axis=1, initial=0.0)
            best[room] = np.minimum(best[room], value)
        return best

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least: the smallest over all values of kept and working bytes."""
        steps = self._levels.steps
        least = self._least[:, steps]
        absent = ~np.isfinite(least)
        working = np.where((counts > 0) @ absent, math.inf, self._values[steps] + self._reserved)
        kept = counts @ np.where(absent, 0.0, least)
        needed, held = np.empty((len(in_flight), len(counts))), np.empty_like(kept)
        for row, flight in enumerate(in_flight):
            np.multiply(kept, flight, out=held)
            held += working
            held.min(axis=1, out=needed[row])
        return np.asarray(needed + states)

    def _room(
        self,
        values: Floats,
        counts: Index,  # noqa: ARG002 - for menus whose blocks hold more than they keep
        states: Floats | float,
        in_flight: Index | int,
    ) -> Floats:
        """Kept bytes per micro-batch that fit beside so much working memory."""
        return np.asarray((self._budget - values - states) / in_flight)

    def slowest(self, counts: Index) -> Floats:
        """Every block at its slowest choice."""
        return np.asarray(counts @ np.array([front.seconds.max() for front in self._frontiers]))

    def quick(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The best of a few values of working memory, rounded from the relaxation."""
        places = self._levels.spread
        widths = self._room(self._values[places, None], counts, states, in_flight)
        return self._levels.hulls.rounded(counts, widths)

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix."""
        return tuple(
            Part(kind, self._frontiers[kind].choices[choice], count)
            for kind, choice, count in mix.parts
        )

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest mix of a signature, or None if nothing fits."""
        return self.cheapest_of([(counts, states, in_flight)])[0]

    def cheapest_of(self, asked: Sequence[Asked]) -> list[Mix | None]:
        """The same of several, their bounds side by side."""
        fresh = [one for one in dict.fromkeys(asked) if one not in self._known]
        rows: list[Asked] = []
        for one in fresh:
            widths = self._room(self._values, np.array(one[0]), *one[1:])
            found, decided = self._looked_up(one[0], widths)
            if decided or not self._has_table:
                self._known[one] = found if decided else self._search(one, widths, None)
            else:
                rows.append(one)
        if rows:
            every = np.array([counts for counts, _, _ in rows])
            states, flights = np.array([one[1] for one in rows]), np.array([one[2] for one in rows])
            widths = self._room(self._values[:, None], every, states, flights).T
            bounds = self._by_value(every, widths)
            for at, one in enumerate(rows):
                self._known[one] = self._search(one, widths[at], bounds[at])
        return [self._known[one] for one in asked]

    def _looked_up(self, counts: tuple[int, ...], widths: Floats) -> tuple[Mix | None, bool]:
        """The cheapest mix where all mixes of a run, or of its halves, are known; whether it is."""
        few = self._levels.few(counts, MANY)
        if few is not None:
            fits = few.kept <= widths[few.value] * (1 + ROUNDING)
            at = int(fits.argmax())
            seconds = float(few.seconds[at])
            return (Mix(seconds, seconds, few.parts(at)) if fits[at] else None), True
        large = len(self._values) > self._most_decisions
        halves = self._levels.halves(counts) if large else None
        if halves is not None:
            return self._of_halves(halves, widths * (1 + ROUNDING)), True
        return None, False

    def _search(self, asked: Asked, widths: Floats, bounds: Floats | None) -> Mix | None:
        """Spans by least bound: split in two, or decided where one value is left.

        ``bounds``: of every value, if they are known; each is then a span of its own.
        """
        counts, kinds = np.array(asked[0]), np.flatnonzero(asked[0])
        spans: list[tuple[float, int, int]] = []

        def enter(low: int, high: int) -> None:
            least = float(counts[kinds] @ self._least[kinds, high])
            if widths[low] * (1 + ROUNDING) >= least:
                bound, _ = self._lagrangian(counts, kinds, high, float(widths[low]))
                heappush(spans, (bound, low, high))

        if bounds is None:
            enter(0, len(self._values) - 1)
        else:
            some = np.flatnonzero(np.isfinite(bounds)).tolist()
            spans = sorted((float(bounds[at]), at, at) for at in some)
        best: Mix | None = None
        decisions = 0
        while spans:
            bound, low, high = heappop(spans)
            if best is not None and bound >= best.seconds * (1 - PRECISE):
                break
            if best is not None and decisions >= self._most_decisions:
                return Mix(best.seconds, min(best.bound, bound), best.parts)
            if low < high:
                middle = (low + high) // 2
                enter(low, middle)
                enter(middle + 1, high)
                continue
            decisions += 1
            mix = self._decide(counts, kinds, high, float(widths[low]), best)
            if mix is not None:
                best = mix
        return best

    @staticmethod
    def _of_halves(halves: Halves, widths: Floats) -> Mix | None:
        """Spans by least bound, down to one value: there the bound is a mix."""
        spans: list[tuple[float, int, int, int, int]] = []

        def enter(low: int, high: int) -> None:
            found = halves.best(high, float(widths[low]))
            if found is not None:
                heappush(spans, (found[0], low, high, *found[1:]))

        enter(0, len(widths) - 1)
        while spans:
            seconds, low, high, *mixes = heappop(spans)
            if low == high:
                return Mix(seconds, seconds, halves.parts(*mixes))
            middle = (low + high) // 2
            enter(low, middle)
            enter(middle + 1, high)
        return None

    def _by_value(self, counts: Index, widths: Floats) -> Floats:
        """A bound of every run's mixes for every value of working memory, shape (runs, values).

        A mix that needs a value takes some choice that only comes in there, or a smaller value
        would do: the least reduced cost of those choices is added to the bound. Infinite where
        there is no room. ``widths`` as the result.
        """
        prices, phi = self._levels.table()
        blocks = counts.astype(np.float64)
        value = (blocks @ phi.reshape(len(phi), -1)).reshape(len(counts), *prices.shape)
        value -= widths[:, :, None] * prices
        best = value.argmax(axis=2)
        run, place = np.arange(len(counts))[:, None], np.arange(len(prices))
        price = prices[place, best]
        entering = np.full(best.shape, math.inf)
        for kind, (front, entry) in enumerate(
            zip(self._frontiers, self._levels.entering, strict=True)
        ):
            here = np.flatnonzero(counts[:, kind])
            if len(here):
                order, first, places = entry
                at = self._levels.entry[kind][order]
                reduced = price[here[:, None], at] * front.kept[order]
                reduced += front.seconds[order] - phi[kind, at, best[here[:, None], at]]
                least = np.minimum.reduceat(reduced, first, axis=1)
                cells = here[:, None], places
                entering[cells] = np.minimum(entering[cells], np.maximum(least, 0.0))
        bounds = np.maximum(value[run, place, best] + entering, 0.0)
        room = widths * (1 + ROUNDING) >= blocks @ self._levels.needed
        return np.where(room, bounds, math.inf)

    def _lagrangian(self, counts: Index, kinds: Index, at: int, width: float) -> tuple[float, int]:
        """The bound of one value's choices within a width, and the price that gives it."""
        level = self._levels.at(at, tuple(kinds.tolist()))
        values = counts[kinds] @ level.phi[kinds] - level.prices * width
        price = int(values.argmax())
        return max(float(values[price]), 0.0), price

    def _decide(
        self,
        counts: Index,
        kinds: Index,
        at: int,
        width: float,
        best: Mix | None,
    ) -> Mix | None:
        """The cheapest mix of one value's choices, or None if ``best`` is not beaten."""
        level = self._levels.at(at, tuple(kinds.tolist()))
        bound, price = self._lagrangian(counts, kinds, at, width)
        core = Core(width * (1 + ROUNDING), bound)
        for kind in kinds.tolist():
            front, rows = self._frontiers[kind], level.admitted[kind]
            reduced = front.seconds[rows] + level.prices[price] * front.kept[rows]
            reduced = np.maximum(reduced - level.phi[kind, price], 0.0)
            core.add(kind, int(counts[kind]), rows, front.kept[rows], front.seconds[rows], reduced)
        mix = core.solve(math.inf if best is None else best.seconds)
        if mix is None or best is None:
            return mix
        return Mix(mix.seconds, min(mix.bound, best.bound), mix.parts)


def _distinct(counts: Index) -> tuple[list[tuple[int, ...]], Index]:
    """The different rows of counts, and which of them each row is."""
    place: dict[tuple[int, ...], int] = {}
    which = [place.setdefault(row, len(place)) for row in map(tuple, counts.tolist())]
    return list(place), np.array(which, dtype=np.int64)


def _spans(values: int) -> list[tuple[int, int]]:
    """All places in at most ``SPANS`` runs [first, last]."""
    edges = np.unique(np.linspace(0, values, min(SPANS, values) + 1).astype(int)).tolist()
    return [(low, high - 1) for low, high in itertools.pairwise(edges)]
