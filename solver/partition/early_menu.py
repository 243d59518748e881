"""A menu whose blocks place recompute in windows of the block behind, which holds it meanwhile.

Windows are shared out among blocks without loss (``recompute/lending.py``); what still ties
neighbours together is memory. While a block runs backward, what the block before it placed in its
windows is alive beside all that it rebuilds itself, so the working memory R of a stage is at least

    rebuilt[b] + early[b - 1] + working[b]        for every block b, early[-1] = 0

Mixes are looked for among those in which no block holds more than E early and none rebuilds more
than R - E, for several values of E and every R that follows; that unties the blocks. What they may
miss is bounded in cells of R. In one, no block alone may come to more than the cell's end, nor all
together to more than that many times it: with prices m per kept byte and v per byte of the sum,

    sum (seconds + m kept + v (rebuilt + early)) - m (C - R) / f - v sum (R - working)

is below every mix of the cell, whichever prices are taken; a cell that could still hold a better
mix than the one in hand is decided exactly for the price v that bounds it best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.core import PRECISE, ROUNDING, Core
from solver.partition.free_menu import FreeMenu
from solver.partition.levels import level_of
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier
from solver.recompute.placed import Link
from solver.recompute.placements import Placements

MOST_HELD = 8
"""Values of early bytes that mixes are looked for at."""

MOST_DECIDED = 10
"""Splits of working memory that are decided exactly in search of a mix."""

MOST_PROVED = 24
"""Cells that are decided exactly, the others left at their bound."""

MOST_CELLS = 80
"""Cells of working memory beside those that end where some block's needs do."""

MOST_PRICES = 12
"""Prices of a kept byte that bounds are looked for at."""

SHARES = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])
"""Prices of a byte of the sum, in units of what it costs where every block fills the memory."""


class EarlyMenu(Menu):
    """Any placement for any block; blocks are told apart by their links.

    With more micro-batches in flight kept bytes weigh more, and fewer choices matter: each number
    has a menu of its own.

    Args:
        costs: The blocks by kind (for their working bytes), capacity and reserved bytes.
        links: What blocks there can be, each with the kind behind it.
        made: The placements of each link, uses of windows left out.
        bounding: Where those are not all, others that are no worse than any.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        links: tuple[Link, ...],
        made: tuple[Placements, ...],
        bounding: tuple[Placements, ...] | None = None,
    ) -> None:
        self._costs, self._links, self._made = costs, links, made
        self._bounding = bounding
        self._by_flight: dict[int, _InFlight] = {}

    @property
    def exact(self) -> bool:
        """Whether nothing is held early, so that the cheapest mix is the best there is."""
        return self._bounding is None and not any(one.early.any() for one in self._made)

    def _with(self, in_flight: int) -> _InFlight:
        """The menu for so many micro-batches in flight."""
        if in_flight not in self._by_flight:
            made = tuple(_that_matter(one, in_flight) for one in self._made)
            bounding = made
            if self._bounding is not None:
                bounding = tuple(_that_matter(one, in_flight) for one in self._bounding)
            self._by_flight[in_flight] = _InFlight(self._costs, self._links, made, bounding)
        return self._by_flight[in_flight]

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """As if no block's early bytes stood beside what another one rebuilds."""
        found = np.empty(len(counts))
        for flight in np.unique(in_flight).tolist():
            here = in_flight == flight
            menu = self._with(flight)
            found[here] = menu.bounds(counts[here], states[here], in_flight[here])
        return found

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest mix found of a signature, or None if nothing fits."""
        menu = self._with(in_flight)
        mix = menu.cheapest(counts, states, in_flight)
        if mix is None:
            return None
        parts = ((link, int(menu.numbers(link)[row]), count) for link, row, count in mix.parts)
        return Mix(mix.seconds, mix.bound, tuple(sorted(parts)))

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix, by link."""
        return tuple(
            Part(link, self._made[link].choices[choice], count) for link, choice, count in mix.parts
        )

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least."""
        return np.concatenate(
            [
                self._with(flight).least_bytes(counts, states, np.array([flight]))
                for flight in in_flight.tolist()
            ]
        )

    def slowest(self, counts: Index) -> Floats:
        """Every block at its slowest choice."""
        return np.asarray(counts @ np.array([one.seconds.max() for one in self._made]))


@dataclass(frozen=True, eq=False)
class _Held:
    """Some of a link's placements, by ascending kept bytes; ``numbers`` are their rows in it."""

    kept: Floats
    seconds: Floats
    rebuilt: Floats
    early: Floats
    numbers: Index


class _InFlight(FreeMenu):
    """The menu for one number of micro-batches in flight.

    As a free menu it bounds runs, each block's rebuilt and early bytes taken apart; its own mixes
    name rows of ``_Held``.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        links: tuple[Link, ...],
        made: tuple[_Held, ...],
        bounding: tuple[_Held, ...],
    ) -> None:
        working = [block.working_bytes for block in costs.blocks]
        self._working = np.array([working[kind] for kind, _ in links])
        behind = [0.0 if after is None else working[after] for _, after in links]
        by_link = replace(costs, blocks=tuple(costs.blocks[kind] for kind, _ in links))
        relaxed = [
            _alone(one, ahead - own)
            for one, own, ahead in zip(bounding, self._working.tolist(), behind, strict=True)
        ]
        super().__init__(by_link, tuple(relaxed))
        self._made, self._bounding = made, bounding
        alive = [one.rebuilt + own for one, own in zip(made, self._working, strict=True)]
        held = _few(np.unique(np.concatenate([one.early for one in made])), MOST_HELD)
        beside = np.unique(np.concatenate(alive))
        self._early = np.repeat(held, len(beside))
        self._split = np.add.outer(held, beside).ravel()
        self._by_early = [
            [_Growing.of(one, own, np.flatnonzero(one.early <= early)) for early in held]
            for one, own in zip(made, alive, strict=True)
        ]
        needs = [
            np.maximum(one.rebuilt + own, np.where(one.early > 0, one.early + ahead, 0.0))
            for one, own, ahead in zip(bounding, self._working, behind, strict=True)
        ]
        self._by_need = [
            _Growing.of(one, need, np.arange(len(need)))
            for one, need in zip(bounding, needs, strict=True)
        ]
        more = _few(np.unique(self._split), MOST_CELLS)
        self._edges = np.unique(np.concatenate([*needs, more]))

    def numbers(self, link: int) -> Index:
        """Rows of a link's placements."""
        return self._made[link].numbers

    def _search(self, counts: Index, states: float, in_flight: int) -> Mix | None:
        links = np.flatnonzero(counts)
        budget = self._budget - states
        prices = self._prices(counts, links, in_flight)
        best = self._looked_for(counts, links, (budget - self._split) / in_flight, prices)
        if best is None:
            return None
        bound = self._proved(counts, links, budget, in_flight, prices, best.seconds)
        return Mix(best.seconds, min(bound, best.seconds), best.parts)

    def _prices(self, counts: Index, links: Index, in_flight: int) -> Floats:
        """Prices of a kept byte at which the best choice of some block changes."""
        share = 1.0 / (in_flight * int(counts.sum()))
        slopes = []
        for link in links.tolist():
            one = self._made[link]
            weight = one.kept + share * (one.rebuilt + one.early)
            order = np.lexsort((one.seconds, weight))
            all_rows = (np.arange(len(order)),)
            slopes.append(level_of([weight[order]], [one.seconds[order]], all_rows).prices)
        found = np.unique(np.concatenate(slopes))
        if len(found) > MOST_PRICES:
            found = found[np.linspace(0, len(found) - 1, MOST_PRICES).round().astype(int)]
        return found

    def _looked_for(
        self, counts: Index, links: Index, widths: Floats, prices: Floats
    ) -> Mix | None:
        """The cheapest mix among the splits that promise most."""
        least, low = np.zeros(len(widths)), -prices[:, None] * widths
        beside = self._split - self._early
        size = len(beside) // len(self._by_early[0])
        for link in links.tolist():
            for at, growing in enumerate(self._by_early[link]):
                here = slice(at * size, (at + 1) * size)
                cost = growing.seconds + prices[:, None] * growing.kept
                low[:, here] += counts[link] * growing.least(cost, beside[here])
                least[here] += counts[link] * growing.least(growing.kept, beside[here])
        bound = np.where(least <= widths * (1 + ROUNDING), low.max(axis=0), np.inf)
        price = prices[low.argmax(axis=0)]
        best: Mix | None = None
        order = np.argsort(bound, kind="stable")
        # What holds nothing early is tried on its own: as good as without windows at least.
        for rows in (order[order < size], order[order >= size]):
            for split in rows[:MOST_DECIDED].tolist():
                if not bound[split] < (np.inf if best is None else best.seconds * (1 - PRECISE)):
                    break
                width = float(widths[split]) * (1 + ROUNDING)
                core = Core(width, max(float(bound[split]), 0.0))
                at, memory = split // size, float(beside[split])
                for link in links.tolist():
                    admitted = np.sort(self._by_early[link][at].within(memory))
                    _enter(core, link, counts, self._made[link], admitted, float(price[split]))
                best = core.solve(np.inf if best is None else best.seconds) or best
        return best

    def _proved(
        self,
        counts: Index,
        links: Index,
        budget: float,
        in_flight: int,
        prices: Floats,
        seconds: float,
    ) -> float:
        """Seconds below which no mix is, up to those of the mix in hand."""
        low, high = self._edges, np.append(self._edges[1:], self._edges[-1])
        width = (budget - low) / in_flight
        blocks = int(counts.sum())
        every, share = (part.ravel() for part in np.meshgrid(prices, SHARES, indexing="ij"))
        each = share * every / (in_flight * blocks)
        room = counts[links] @ np.maximum(high - self._working[links][:, None], 0.0)
        total = -every[:, None] * width - each[:, None] * room
        least = np.zeros(len(low))
        for link in links.tolist():
            growing = self._by_need[link]
            cost = growing.seconds + every[:, None] * growing.kept + each[:, None] * growing.pair
            total += counts[link] * growing.least(cost, low)
            least += counts[link] * growing.least(growing.kept, low)
        shared = total.reshape(len(prices), len(SHARES), -1)
        best = shared.max(axis=0)
        at = shared.argmax(axis=0)
        found = seconds
        promise = np.where(least <= width * (1 + ROUNDING), best.max(axis=0), np.inf)
        for place, cell in enumerate(np.argsort(promise, kind="stable").tolist()):
            bound = max(float(promise[cell]), 0.0)
            if bound >= found * (1 - PRECISE):
                break
            if place >= MOST_PROVED:
                return bound
            for which in (int(best[:, cell].argmax()), 0):
                if bound >= found * (1 - PRECISE):
                    break
                price = float(prices[at[which, cell]])
                pair = float(SHARES[which]) * price / (in_flight * blocks)
                shift = pair * float(room[cell])
                core = Core(float(width[cell]) * (1 + ROUNDING), float(best[which, cell]) + shift)
                admitted = self._by_need
                for link in links.tolist():
                    rows = np.sort(admitted[link].within(float(low[cell])))
                    _enter(core, link, counts, self._bounding[link], rows, price, pair)
                mix = core.solve(found + shift)
                bound = found if mix is None else max(bound, mix.bound - shift)
            found = min(found, bound)
        return found


@dataclass(frozen=True, eq=False)
class _Growing:
    """Placements by what they need to be there: a growing memory admits one after the other.

    ``needs``, ascending, ``rows`` of ``_Held`` and the others have shape (placements,); ``pair`` is
    what counts where two blocks' bytes stand side by side, rebuilt and early.
    """

    needs: Floats
    rows: Index
    kept: Floats
    seconds: Floats
    pair: Floats

    @classmethod
    def of(cls, made: _Held, needs: Floats, rows: Index) -> _Growing:
        """These rows, with what each needs."""
        order = rows[np.argsort(needs[rows], kind="stable")]
        pair = made.rebuilt + made.early
        return cls(needs[order], order, made.kept[order], made.seconds[order], pair[order])

    def least(self, costs: Floats, memory: Floats) -> Floats:
        """The least of costs (..., placements) within each memory, (..., memories)."""
        at = np.searchsorted(self.needs, memory * (1 + ROUNDING), side="right")
        nothing = np.full((*costs.shape[:-1], 1), np.inf)
        so_far = np.concatenate([nothing, np.minimum.accumulate(costs, axis=-1)], axis=-1)
        return np.asarray(so_far[..., at])

    def within(self, memory: float) -> Index:
        """The rows that a memory admits."""
        at = int(np.searchsorted(self.needs, memory * (1 + ROUNDING), side="right"))
        return self.rows[:at]


def _enter(
    core: Core,
    link: int,
    counts: Index,
    made: _Held,
    rows: Index,
    price: float,
    pair: float = 0.0,
) -> None:
    """Enter these rows of a link at a price per kept byte, and per byte of the sum."""
    seconds = made.seconds[rows] + pair * (made.rebuilt + made.early)[rows]
    cost = seconds + price * made.kept[rows]
    core.add(link, int(counts[link]), rows, made.kept[rows], seconds, cost - cost.min())


@lru_cache(maxsize=256)
def as_frontier(made: Placements) -> Frontier:
    """Placements of a stage that holds all it rebuilds at once, whenever that was."""
    return Frontier(made.choices, made.kept, made.seconds, made.rebuilt)


@lru_cache(maxsize=1024)
def _that_matter(made: Placements, in_flight: int) -> _Held:
    """The placements that none replaces: kept bytes weigh ``in_flight`` times in a stage."""
    kept = in_flight * made.kept
    costs = [made.kept, made.seconds, kept + made.rebuilt, kept + made.early]
    rows = np.sort(undominated_rows(np.stack(costs, axis=1)))
    return _Held(made.kept[rows], made.seconds[rows], made.rebuilt[rows], made.early[rows], rows)


@lru_cache(maxsize=1024)
def _alone(made: _Held, beside: float) -> Frontier:
    """The choices of a link where no neighbour holds anything beside it.

    ``beside``: how much more the block behind needs to work than this one.
    """
    alive = np.maximum(made.rebuilt, np.where(made.early > 0, made.early + beside, 0.0))
    rows = np.sort(undominated_rows(np.stack([made.kept, made.seconds, made.kept + alive], 1)))
    return Frontier((), made.kept[rows], made.seconds[rows], alive[rows])


def _few(values: Floats, most: int) -> Floats:
    """At most so many of these, the least and the most among them."""
    picked = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round())
    return np.asarray(values[picked.astype(int)])
