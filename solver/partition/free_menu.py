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
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.core import PRECISE, ROUNDING, Core
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.recompute.frontier import Frontier

SPANS = 8
"""Spans of working memory that the vectorised bounds tell apart."""

LARGE = 300
"""Choices of all kinds beyond which only the most promising values are decided."""

FEW = 8
"""How many values that is; the bound of the others then stands beside the mix."""


@dataclass(frozen=True, eq=False)
class _Level:
    """The choices whose working memory stays within one value, and their Lagrangian function."""

    prices: Floats  # (prices,) ascending
    phi: Floats  # (kinds, prices); infinite where no choice is admitted
    admitted: tuple[Index, ...]


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
        self._peaks = [
            front.rebuilt + block.working_bytes
            for front, block in zip(frontiers, costs.blocks, strict=True)
        ]
        self._values = np.unique(np.concatenate(self._peaks))
        self._least = np.stack(
            [
                _least_so_far(front.kept, peak, self._values)
                for front, peak in zip(frontiers, self._peaks, strict=True)
            ]
        )
        large = sum(len(front.choices) for front in frontiers) > LARGE
        self._most_decisions = FEW if large else len(self._values)
        self._levels: dict[int, _Level] = {}
        self._known: dict[tuple[tuple[int, ...], float, int], Mix | None] = {}

    @property
    def frontiers(self) -> tuple[Frontier, ...]:
        """What each block kind may choose among."""
        return self._frontiers

    def _level(self, at: int) -> _Level:
        """The choices within the value at that place."""
        if at not in self._levels:
            limit = float(self._values[at]) * (1 + ROUNDING)
            admitted = tuple(np.flatnonzero(peak <= limit) for peak in self._peaks)
            prices = {0.0}
            for front, rows in zip(self._frontiers, admitted, strict=True):
                prices.update(_hull_slopes(front.kept[rows], front.seconds[rows]))
            price = np.array(sorted(prices))
            phi = np.full((len(self._frontiers), len(price)), math.inf)
            for kind, (front, rows) in enumerate(zip(self._frontiers, admitted, strict=True)):
                if len(rows):
                    lines = front.seconds[rows, None] + front.kept[rows, None] * price
                    phi[kind] = lines.min(axis=0)
            self._levels[at] = _Level(price, phi, admitted)
        return self._levels[at]

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The Lagrangian bound of every run over a few spans of the working memory."""
        best = np.full(len(counts), math.inf)
        present = counts > 0
        for low, high in _spans(len(self._values)):
            level = self._level(high)
            absent = ~np.isfinite(self._least[:, high])
            least = np.where(absent, 0.0, self._least[:, high])
            width = (self._budget - self._values[low] - states) / in_flight
            room = ~(present & absent).any(axis=1)
            room &= width * (1 + ROUNDING) >= counts @ least
            phi = np.where(absent[:, None], 0.0, level.phi)
            value = (counts[room] @ phi - width[room, None] * level.prices).max(axis=1, initial=0.0)
            best[room] = np.minimum(best[room], value)
        return best

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least: the smallest over all values of kept and working bytes."""
        absent = ~np.isfinite(self._least)
        working = np.where((counts > 0) @ absent, math.inf, self._values + self._reserved)
        kept = counts @ np.where(absent, 0.0, self._least)
        return np.stack([states + (flight * kept + working).min(axis=1) for flight in in_flight])

    def slowest(self, counts: Index) -> Floats:
        """Every block at its least kept bytes."""
        return np.asarray(counts @ np.array([front.seconds[0] for front in self._frontiers]))

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix."""
        return tuple(
            Part(kind, self._frontiers[kind].choices[choice], count)
            for kind, choice, count in mix.parts
        )

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest mix of a signature, or None if nothing fits."""
        key = (counts, states, in_flight)
        if key not in self._known:
            self._known[key] = self._search(np.array(counts), states, in_flight)
        return self._known[key]

    def _search(self, counts: Index, states: float, in_flight: int) -> Mix | None:
        """Spans by least bound: split in two, or decided where one value is left."""
        kinds = np.flatnonzero(counts)
        widths = (self._budget - self._values - states) / in_flight
        spans: list[tuple[float, int, int]] = []

        def enter(low: int, high: int) -> None:
            least = float(counts[kinds] @ self._least[kinds, high])
            if widths[low] * (1 + ROUNDING) >= least:
                bound, _ = self._lagrangian(counts, kinds, high, float(widths[low]))
                heappush(spans, (bound, low, high))

        enter(0, len(self._values) - 1)
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

    def _lagrangian(self, counts: Index, kinds: Index, at: int, width: float) -> tuple[float, int]:
        """The bound of one value's choices within a width, and the price that gives it."""
        level = self._level(at)
        values = counts[kinds] @ level.phi[kinds] - level.prices * width
        price = int(values.argmax())
        return max(float(values[price]), 0.0), price

    def _decide(
        self, counts: Index, kinds: Index, at: int, width: float, best: Mix | None
    ) -> Mix | None:
        """The cheapest mix of one value's choices, or None if ``best`` is not beaten."""
        level = self._level(at)
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


def _spans(values: int) -> list[tuple[int, int]]:
    """All places in at most ``SPANS`` runs [first, last]."""
    edges = np.unique(np.linspace(0, values, min(SPANS, values) + 1).astype(int)).tolist()
    return [(low, high - 1) for low, high in itertools.pairwise(edges)]


def _least_so_far(kept: Floats, peaks: Floats, values: Floats) -> Floats:
    """Least kept bytes among the choices within each value; infinite where there is none."""
    order = np.argsort(peaks, kind="stable")
    least = np.append(np.minimum.accumulate(kept[order]), math.inf)
    within = np.searchsorted(peaks[order], values * (1 + ROUNDING), side="right")
    return np.asarray(least[within - 1])


def _hull_slopes(kept: Floats, seconds: Floats) -> list[float]:
    """Seconds saved per byte along the lower convex hull of the choices; kept ascending."""
    hull: list[tuple[float, float]] = []
    for point in zip(kept.tolist(), seconds.tolist(), strict=True):
        if hull and point[1] >= hull[-1][1]:
            continue
        if hull and point[0] == hull[-1][0]:
            hull.pop()
        while len(hull) > 1 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return [(a[1] - b[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(hull)]


def _above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
