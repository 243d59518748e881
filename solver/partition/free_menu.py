"""The cheapest mix: which choice each block of a stage takes, for the stage's memory budget.

For a run with ``counts[k]`` blocks of kind k, in-flight f and capacity C::

    minimise   sum over k, c of  x[k, c] seconds[k, c]
    subject to sum over c of x[k, c] = counts[k]                                for every kind k
               f sum x[k, c] kept[k, c] + R <= C - states - reserved
               x[k, c] = 0 unless rebuilt[k, c] + working[k] <= R

over integers x and the few values R (``level``) that the working memory can take. For one level
this is a multiple-choice knapsack with equal items. Its Lagrangian bound is

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

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.core import PRECISE, ROUNDING, Core
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.recompute.frontier import Frontier


@dataclass(frozen=True, eq=False)
class _Level:
    """One value of the working memory and the choices it admits."""

    working: float
    prices: Floats  # (prices,) ascending
    phi: Floats  # (kinds, prices)
    least_kept: Floats  # (kinds,); infinite where no choice is admitted
    admitted: tuple[Index, ...]


class FreeMenu(Menu):
    """Any choice for any block; cheapest mixes are remembered by signature and budget.

    Args:
        costs: The blocks (for their working bytes), capacity and reserved bytes.
        frontiers: One frontier per block kind.
    """

    def __init__(self, costs: PipelineCosts, frontiers: tuple[Frontier, ...]) -> None:
        self._reserved = costs.reserved_bytes
        self._budget = costs.capacity_bytes - costs.reserved_bytes
        self._frontiers = frontiers
        self._working = [block.working_bytes for block in costs.blocks]
        self._levels = self._make_levels()
        self._known: dict[tuple[tuple[int, ...], float, int], Mix | None] = {}

    def _make_levels(self) -> list[_Level]:
        peaks = [f.rebuilt + w for f, w in zip(self._frontiers, self._working, strict=True)]
        values = np.unique(np.concatenate(peaks))
        levels = []
        for value in values:
            admitted = tuple(np.flatnonzero(peak <= value * (1 + ROUNDING)) for peak in peaks)
            levels.append(self._level(float(value), admitted))
        return levels

    def _level(self, working: float, admitted: tuple[Index, ...]) -> _Level:
        prices = {0.0}
        for front, rows in zip(self._frontiers, admitted, strict=True):
            prices.update(_hull_slopes(front.kept[rows], front.seconds[rows]))
        price = np.array(sorted(prices))
        phi = np.full((len(self._frontiers), len(price)), math.inf)
        least = np.full(len(self._frontiers), math.inf)
        for kind, (front, rows) in enumerate(zip(self._frontiers, admitted, strict=True)):
            if len(rows):
                lines = front.seconds[rows, None] + front.kept[rows, None] * price
                phi[kind] = lines.min(axis=0)
                least[kind] = front.kept[rows].min()
        return _Level(working, price, phi, least, admitted)

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The Lagrangian bound of every run over all levels."""
        best = np.full(len(counts), math.inf)
        present = counts > 0
        for level in self._levels:
            absent = ~np.isfinite(level.least_kept)
            room = ~(present & absent).any(axis=1)
            width = (self._budget - level.working - states) / in_flight
            least = np.where(absent, 0.0, level.least_kept)
            room &= width * (1 + ROUNDING) >= counts @ least
            phi = np.where(absent[:, None], 0.0, level.phi)
            value = (counts[room] @ phi - width[room, None] * level.prices).max(axis=1, initial=0.0)
            best[room] = np.minimum(best[room], value)
        return best

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least: the smallest over the levels of kept and working bytes."""
        least = np.stack([level.least_kept for level in self._levels], axis=1)
        absent = ~np.isfinite(least)
        working = np.array([level.working for level in self._levels]) + self._reserved
        working = np.where((counts > 0) @ absent, math.inf, working)
        kept = counts @ np.where(absent, 0.0, least)
        return np.asarray(states + (in_flight[:, None, None] * kept + working).min(axis=2))

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
            self._known[key] = self._search(counts, states, in_flight)
        return self._known[key]

    def _search(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        number = np.array(counts)
        kinds = np.flatnonzero(number)
        ranked = []
        for level in self._levels:
            if not np.isfinite(level.least_kept[kinds]).all():
                continue
            width = (self._budget - level.working - states) / in_flight
            if width * (1 + ROUNDING) < float(number[kinds] @ level.least_kept[kinds]):
                continue
            values = number[kinds] @ level.phi[kinds] - level.prices * width
            best = int(values.argmax())
            ranked.append((max(float(values[best]), 0.0), level.working, best, width, level))
        best_mix: Mix | None = None
        for bound, _, price_at, width, level in sorted(ranked, key=lambda entry: entry[:2]):
            if best_mix is not None and bound >= best_mix.seconds * (1 - PRECISE):
                break
            mix = self._at_level(level, kinds.tolist(), counts, width, bound, price_at)
            if best_mix is None or mix.seconds < best_mix.seconds:
                best_mix = Mix(mix.seconds, min(mix.bound, mix.seconds), mix.parts)
        if best_mix is None:
            return None
        return best_mix

    def _at_level(
        self,
        level: _Level,
        kinds: list[int],
        counts: tuple[int, ...],
        width: float,
        bound: float,
        price_at: int,
    ) -> Mix:
        price = float(level.prices[price_at])
        core = Core(width * (1 + ROUNDING), bound)
        for kind in kinds:
            front, rows = self._frontiers[kind], level.admitted[kind]
            reduced = front.seconds[rows] + price * front.kept[rows] - level.phi[kind, price_at]
            core.add(kind, counts[kind], rows, front.kept[rows], front.seconds[rows], reduced)
        return core.solve()


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
