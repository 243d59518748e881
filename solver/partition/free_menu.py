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
cost exceeds the distance between a feasible mix and the bound cannot be part of a better mix, which
leaves so few that they are simply enumerated (Pisinger 1995, "A minimal algorithm for the
multiple-choice knapsack problem", uses the same core).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.recompute.frontier import Frontier

ROUNDING = 1e-12
"""Relative slack of a memory comparison: sums of the same bytes in another order count as equal."""

PRECISE = 1e-9
"""Relative distance to the bound at which a mix counts as optimal."""

MOST_NODES = 20_000
"""Enumerated mixes beyond which the remaining distance is reported instead of closed."""


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
        """Least recompute seconds at best, shape (in_flights, signatures); infinite: cannot fit.

        Args:
            counts: Shape (signatures, kinds).
            states: State bytes, shape (signatures,).
            in_flight: Distinct in-flight counts, shape (in_flights,).
        """
        best = np.full((len(in_flight), len(counts)), math.inf)
        present = counts > 0
        for level in self._levels:
            possible = ~(present & ~np.isfinite(level.least_kept)).any(axis=1)
            if not possible.any():
                continue
            number = counts[possible]
            phi = np.where(np.isfinite(level.phi), level.phi, 0.0)
            least = np.where(np.isfinite(level.least_kept), level.least_kept, 0.0)
            width = (self._budget - level.working - states[possible]) / in_flight[:, None]
            room = width * (1 + ROUNDING) >= number @ least
            value = (number @ phi)[None] - width[:, :, None] * level.prices
            bound = np.where(room, value.max(axis=2), math.inf)
            best[:, possible] = np.minimum(best[:, possible], bound)
        return np.asarray(np.maximum(best, 0.0))

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Everything recomputed."""
        least = [front.kept[0] for front in self._frontiers]
        peaks = [f.rebuilt[0] + w for f, w in zip(self._frontiers, self._working, strict=True)]
        working = np.where(counts > 0, np.array(peaks), 0.0).max(axis=1)
        kept = counts @ np.array(least)
        return np.asarray(states + in_flight[:, None] * kept + working + self._reserved)

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
        core = _Core(width * (1 + ROUNDING), bound)
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


@dataclass(frozen=True)
class _Move:
    """Taking one block of a kind from its base choice to another one."""

    reduced: float
    kind: int
    choice: int
    kept: float
    seconds: float


class _Core:
    """The enumeration behind one level: base choices, and moves away from them."""

    def __init__(self, width: float, bound: float) -> None:
        self._room = width
        self._bound = bound
        self._base: dict[int, int] = {}
        self._base_seconds = 0.0
        self._left: dict[int, int] = {}
        self._moves: list[_Move] = []
        self._best = math.inf
        self._taken: dict[_Move, int] = {}
        self._nodes = 0

    def add(
        self,
        kind: int,
        count: int,
        choices: Index,
        kept: Floats,
        seconds: Floats,
        reduced: Floats,
    ) -> None:
        """Enter a kind; its base is the least-kept choice of (nearly) no reduced cost."""
        scale = max(float(seconds.max()), 1e-300)
        at = int(np.flatnonzero(reduced <= scale * ROUNDING)[0])
        self._base[kind] = int(choices[at])
        self._left[kind] = count
        self._base_seconds += count * float(seconds[at])
        self._room -= count * float(kept[at])
        for row in range(len(choices)):
            if row != at:
                self._moves.append(
                    _Move(
                        reduced=max(float(reduced[row]), 0.0),
                        kind=kind,
                        choice=int(choices[row]),
                        kept=float(kept[row] - kept[at]),
                        seconds=float(seconds[row] - seconds[at]),
                    )
                )

    def solve(self) -> Mix:
        """The best mix, with the bound that stands if the enumeration was cut short."""
        self._greedy()
        slack = self._tolerance()
        # Moves of high reduced cost first: they are few, and the cheap ones fill what is left.
        self._moves = sorted(
            (m for m in self._moves if m.reduced < self._best - self._bound - slack),
            key=lambda m: (-m.reduced, m.kind, m.choice),
        )
        self._descend(0, self._room, self._base_seconds, 0.0, {})
        finished = self._nodes <= MOST_NODES
        return Mix(self._best, self._best if finished else self._bound, self._parts())

    def _tolerance(self) -> float:
        return PRECISE * max(self._best, 0.0)

    def _greedy(self) -> None:
        """A first mix: keep taking the move that saves most among those that fit."""
        room, seconds = self._room, self._base_seconds
        left, taken = dict(self._left), dict.fromkeys(range(len(self._moves)), 0)
        gains = sorted(
            (i for i, m in enumerate(self._moves) if m.seconds < 0),
            key=lambda i: (self._moves[i].reduced, self._moves[i].seconds),
        )
        for i in gains:
            move = self._moves[i]
            fits = left[move.kind] if move.kept <= 0 else int(max(room, 0.0) // move.kept)
            times = min(left[move.kind], fits)
            room -= times * move.kept
            seconds += times * move.seconds
            left[move.kind] -= times
            taken[i] += times
        if room < 0:  # cannot happen: the base fits whenever the level admits a mix
            return
        self._record(seconds, {self._moves[i]: n for i, n in taken.items() if n})

    def _record(self, seconds: float, taken: dict[_Move, int]) -> None:
        if seconds < self._best:
            self._best = max(seconds, 0.0)
            self._taken = dict(taken)

    def _descend(
        self, depth: int, room: float, seconds: float, reduced: float, taken: dict[_Move, int]
    ) -> None:
        """Try every count of the move at ``depth``; the reduced costs taken so far bound it."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            return
        if self._bound + reduced >= self._best - self._tolerance():
            return
        if depth == len(self._moves):
            if room >= 0:
                self._record(seconds, taken)
            return
        move = self._moves[depth]
        left = self._left[move.kind]
        if depth == len(self._moves) - 1:
            times = left
            if move.kept > 0:
                times = min(left, int(max(room, 0.0) // move.kept)) if move.seconds < 0 else 0
            elif move.seconds >= 0:
                times = min(left, math.ceil(-room / -move.kept)) if room < 0 < -move.kept else 0
            after = room - times * move.kept
            if after >= 0:
                extra = {**taken, move: times} if times else taken
                self._record(seconds + times * move.seconds, extra)
            return
        for times in range(left + 1):
            if self._bound + reduced + times * move.reduced >= self._best - self._tolerance():
                break
            self._left[move.kind] = left - times
            self._descend(
                depth + 1,
                room - times * move.kept,
                seconds + times * move.seconds,
                reduced + times * move.reduced,
                {**taken, move: times} if times else taken,
            )
        self._left[move.kind] = left

    def _parts(self) -> tuple[tuple[int, int, int], ...]:
        left = dict(self._left)
        parts = []
        for move, times in self._taken.items():
            parts.append((move.kind, move.choice, times))
            left[move.kind] -= times
        parts += [(kind, self._base[kind], count) for kind, count in left.items() if count]
        return tuple(sorted(parts))
