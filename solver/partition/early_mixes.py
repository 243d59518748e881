"""Mixes of a stage whose blocks hold for each other, in an order in which they can.

Blocks of one link that stand together may take any choices that could follow themselves,

    rebuilt + working + early  <=  R,

in the order of their early bytes: each needs no more than what its own bytes leave, and the block
before it holds no more than that. With a limit E of what such blocks hold early, the block behind
them needs R - E at most. So for every E and R mixes are a knapsack with equal items, bounded for
all E and R at once. Those of least bound look for the price at which their memory is just enough.
The choices on its two sides, the first blocks of one and the last of the other, are mixes; what
memory they leave is given to one block after the other (``bettered.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solver.partition.alone_cells import few, least_within
from solver.partition.bettered import Bettered
from solver.partition.core import ROUNDING
from solver.partition.menu import Bools, Floats, Index
from solver.partition.succession import Held, Succession

MOST_HELD = 6
"""Limits of early bytes that mixes are looked for at."""

MOST_VALUES = 128
"""Values of working memory that mixes are looked for at."""

MOST_TRIED = 12
"""Knapsacks that mixes are made of."""

MOST_LOOKS = 6
"""Times that each looks for its price."""

ASIDE = 1e-9
"""How far from where tangents meet, relative to it, prices on both sides are taken."""

DEAREST = 1e6
"""The price, in units of the dearest slope, at which as little is kept as can be."""


@dataclass(frozen=True)
class Place:
    """Blocks of one link that are subject to the same: a choice may hold something early only if
    ``holds``, may follow itself if ``repeats``, and stands ``behind`` blocks that hold early.
    """

    link: int
    holds: bool
    repeats: bool
    behind: bool


@dataclass(frozen=True, eq=False)
class _Side:
    """The choices of every place, (knapsacks,) each, and what all blocks keep and take."""

    rows: tuple[Index, ...]
    kept: Floats
    seconds: Floats

    def where(self, chosen: Bools, other: _Side) -> _Side:
        """This side where ``chosen``, else the other."""
        pairs = zip(self.rows, other.rows, strict=True)
        return _Side(
            tuple(np.where(chosen, mine, theirs) for mine, theirs in pairs),
            np.where(chosen, self.kept, other.kept),
            np.where(chosen, self.seconds, other.seconds),
        )


class EarlyMixes:
    """The mixes of one menu.

    Args:
        held: The choices of each link.
        succession: What may follow what.
        in_flight: Micro-batches in flight.
        prices: Seconds per kept byte to bound mixes at.
    """

    def __init__(
        self, held: Sequence[Held], succession: Succession, in_flight: int, prices: Floats
    ) -> None:
        self._held, self._succession, self._in_flight = tuple(held), succession, in_flight
        self._prices = np.concatenate([[0.0], prices])
        self._values = few(succession.values, MOST_VALUES)
        self._limits = few(np.unique(np.concatenate([one.early for one in held])), MOST_HELD)
        self._needs: dict[Place, Floats] = {}
        self._least: dict[Place, tuple[Floats, Floats]] = {}

    def cheapest(
        self, links: Sequence[int], budget: float
    ) -> tuple[float, tuple[int, ...], float] | None:
        """Seconds, every block's choice, and the price that it was found at; None if none fits.

        Args:
            links: The link of every block, in the order of the model.
            budget: Bytes beside states and reserve.
        """
        groups = places(links)
        counts: dict[Place, int] = {}
        for place, start, stop in groups:
            counts[place] = counts.get(place, 0) + stop - start
        bounds = self._bounds(counts, (budget - self._values) / self._in_flight).ravel()
        order = np.argsort(bounds, kind="stable")[:MOST_TRIED]
        order = order[np.isfinite(bounds[order])]
        if not len(order):
            return None
        limit, value = np.divmod(order, len(self._values))
        cheap, dear, price = self._on_both_sides(counts, limit, self._values[value], budget)
        number = {place: at for at, place in enumerate(counts)}
        of_block = [number[place] for place, start, stop in groups for _ in range(start, stop)]
        sides = [np.stack([side.rows[at] for at in of_block], axis=1) for side in (cheap, dear)]
        found = Bettered(self._succession, links, budget, self._in_flight).best(*sides)
        return None if found is None else (*found, float(np.median(price)))

    def _bounds(self, counts: dict[Place, int], widths: Floats) -> Floats:
        """Lagrangian bounds, shape (limits, values); infinite where too little has room."""
        low: Floats | float = -self._prices[:, None] * widths
        least: Floats | float = 0.0
        for place, count in counts.items():
            cost, kept = self._least_within(place)
            low, least = low + count * cost, least + count * kept
        room = least <= widths * (1 + ROUNDING)
        return np.where(room, np.asarray(low).max(axis=1), np.inf)

    def _on_both_sides(
        self, counts: dict[Place, int], limit: Index, value: Floats, budget: float
    ) -> tuple[_Side, _Side, Floats]:
        """The choices that keep just too much and just little enough, and the price between."""
        width = (budget - value) / self._in_flight * (1 + ROUNDING)
        admitted = [
            np.where(self._needed(place)[limit] <= value[:, None] * (1 + ROUNDING), 0.0, np.inf)
            for place in counts
        ]

        def at(price: Floats) -> _Side:
            rows, kept, seconds = [], np.zeros(len(limit)), np.zeros(len(limit))
            for (place, count), barred in zip(counts.items(), admitted, strict=True):
                mine = self._held[place.link]
                chosen = (mine.seconds + price[:, None] * mine.kept + barred).argmin(axis=1)
                rows.append(chosen)
                kept += count * mine.kept[chosen]
                seconds += count * mine.seconds[chosen]
            return _Side(tuple(rows), kept, seconds)

        price = np.zeros(len(limit))
        cheap, dear = at(price), at(price + self._prices[-1] * DEAREST)
        for _ in range(MOST_LOOKS):
            more = cheap.kept - dear.kept
            price = np.where(more > 0, dear.seconds - cheap.seconds, 0.0)
            price /= np.where(more > 0, more, 1.0)
            below, above = at(price * (1 - ASIDE)), at(price * (1 + ASIDE))
            cheap = below.where(below.kept > width, cheap)
            cheap = above.where(above.kept > width, cheap)
            dear = above.where(above.kept <= width, dear)
            dear = below.where(below.kept <= width, dear)
        return cheap, dear, price

    def _least_within(self, place: Place) -> tuple[Floats, Floats]:
        """Least priced costs (limits, prices, values) and kept bytes (limits, values)."""
        if place not in self._least:
            mine = self._held[place.link]
            priced = np.stack([mine.kept, *(mine.seconds + self._prices[:, None] * mine.kept)])
            found = np.stack(
                [least_within(needs, priced, self._values) for needs in self._needed(place)]
            )
            self._least[place] = found[:, 1:], found[:, 0]
        return self._least[place]

    def _needed(self, place: Place) -> Floats:
        """The working memory that admits each choice, shape (limits, choices)."""
        if place not in self._needs:
            mine, most = self._held[place.link], self._limits[:, None]
            needs = mine.needs + (mine.early if place.repeats else 0.0)
            beside = mine.needs + most if place.behind else needs
            holds = mine.early <= (most if place.holds else np.zeros_like(most))
            self._needs[place] = np.where(holds, np.maximum(needs, beside), np.inf)
        return self._needs[place]


def places(links: Sequence[int]) -> list[tuple[Place, int, int]]:
    """Groups of neighbouring blocks of a link, [start, stop), and what each is subject to.

    One block alone before several of another link holds nothing early: the first of those leaves
    only what it holds itself.
    """
    groups, start = [], 0
    for link, group in itertools.groupby(links):
        stop = start + len(list(group))
        groups.append((link, start, stop))
        start = stop
    found: list[tuple[Place, int, int]] = []
    for at, (link, start, stop) in enumerate(groups):
        repeats = stop > start + 1
        next_repeats = at + 1 < len(groups) and groups[at + 1][2] > groups[at + 1][1] + 1
        behind = bool(found) and found[-1][0].holds
        found.append((Place(link, repeats or not next_repeats, repeats, behind), start, stop))
    return found
