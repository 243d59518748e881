"""A menu whose blocks place recompute in windows of the block behind, which holds it meanwhile.

Windows are shared out among blocks without loss (``recompute/lending.py``); what still ties
neighbours together is memory: how much a block holds early bounds what the next one may rebuild.
Choices are found among mixes that can be put in an order in which that fits (``early_mixes.py``),
and bounded over all orders (``held_early.py``). Before, runs are bounded as if no block's early
bytes stood beside what another one rebuilds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from solver.costs.pipeline import Block, PipelineCosts
from solver.partition.alone_cells import AloneCells, few
from solver.partition.bettered import Bettered
from solver.partition.core import PRECISE, ROUNDING
from solver.partition.early_mixes import EarlyMixes
from solver.partition.held_early import HeldEarly
from solver.partition.levels import level_of
from solver.partition.menu import Bools, Floats, Index
from solver.partition.succession import Held, Succession
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier
from solver.recompute.placed import Link
from solver.recompute.placements import Placements

MOST_PRICES = 6
"""Prices of a kept byte that mixes are bounded at."""

MOST_BOUNDED = 16
"""Prices of a kept byte that runs are bounded at."""

PRECISE_SHARE = 1e-5
"""Share of a stage's forward and backward within which its recompute need not be told."""


@dataclass(frozen=True, eq=False)
class Laid:
    """Choices of a stage's blocks in their order, and seconds that no choices are below."""

    seconds: float
    bound: float
    choices: tuple[int, ...]


class EarlyMenu:
    """Any placement for any block; blocks are told apart by their links.

    With more micro-batches in flight kept bytes weigh more, and fewer choices matter: each number
    has a menu of its own.

    Args:
        costs: The blocks by kind (for their working bytes), capacity and reserved bytes.
        links: What blocks there can be, each with the kind behind it.
        made: The placements of each link, uses of windows left out.
    """

    def __init__(
        self, costs: PipelineCosts, links: tuple[Link, ...], made: tuple[Placements, ...]
    ) -> None:
        self._costs, self._links, self._made = costs, links, made
        self._by_flight: dict[int, tuple[Bools, _InFlight]] = {}
        self._known: dict[tuple[tuple[int, ...], float, int], Laid | None] = {}

    @property
    def exact(self) -> bool:
        """Whether nothing is held early, so that blocks do not depend on each other."""
        return not any(one.early.any() for one in self._made)

    def _with(self, in_flight: int, used: Bools) -> _InFlight:
        """The menu for so many micro-batches in flight, of these links at least."""
        known, menu = self._by_flight.get(in_flight, (np.zeros_like(used), None))
        if menu is None or (used & ~known).any():
            known = known | used
            made = {
                link: _that_matter(self._made[link], in_flight, self._costs.blocks[kind])
                for link, (kind, _) in enumerate(self._links)
                if known[link]
            }
            menu = _InFlight(self._costs, self._links, made, in_flight)
            self._by_flight[in_flight] = known, menu
        return menu

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """As if no block's early bytes stood beside what another one rebuilds."""
        found = np.empty(len(counts))
        for flight in np.unique(in_flight).tolist():
            here = in_flight == flight
            menu = self._with(flight, counts[here].any(axis=0))
            found[here] = menu.bounds(counts[here], states[here])
        return found

    def laid_out(self, links: Sequence[int], states: float, in_flight: int) -> Laid | None:
        """The cheapest choices found for a stage's blocks, or None if nothing fits.

        Choices are rows of each link's placements.
        """
        key = (tuple(links), states, in_flight)
        if key not in self._known:
            used = np.isin(np.arange(len(self._links)), links)
            self._known[key] = self._with(in_flight, used).laid_out(links, states)
        return self._known[key]


class _InFlight:
    """The menu for one number of micro-batches in flight, of some links."""

    def __init__(
        self,
        costs: PipelineCosts,
        links: tuple[Link, ...],
        made: dict[int, Held],
        in_flight: int,
    ) -> None:
        self._links, self._in_flight = np.array(list(made)), in_flight
        self._place = {link: place for place, link in enumerate(made)}
        self._made = tuple(made.values())
        self._budget = costs.capacity_bytes - costs.reserved_bytes
        some = [links[link] for link in made]
        self._passes = [
            costs.blocks[kind].forward_seconds + costs.blocks[kind].backward_seconds
            for kind, _ in some
        ]
        pairs = [
            (before, after)
            for before, (_, following) in enumerate(some)
            for after, (kind, _) in enumerate(some)
            if following == kind
        ]
        self._succession = Succession(self._made, pairs)
        # Of each link the choice of least seconds, and of those the one that keeps least.
        self._quickest = [int(np.lexsort((one.kept, one.seconds))[0]) for one in self._made]
        prices = hull_prices(self._made, in_flight)
        self._mixes = EarlyMixes(self._made, self._succession, in_flight, few(prices, MOST_PRICES))
        working = [block.working_bytes for block in costs.blocks]
        behind = [0.0 if after is None else working[after] for _, after in some]
        self._cells = AloneCells(self._made, behind, in_flight, few(prices, MOST_BOUNDED))

    def bounds(self, counts: Index, states: Floats) -> Floats:
        """Seconds that no choices of runs are below, shape (runs,); infinite where none fit."""
        return self._cells.bounds(counts[:, self._links], self._budget - states)

    def laid_out(self, of_blocks: Sequence[int], states: float) -> Laid | None:
        """The cheapest choices found."""
        links = [self._place[link] for link in of_blocks]
        budget = self._budget - states
        if at_ease := self._at_ease(links, budget):
            return at_ease
        precise = PRECISE_SHARE * sum(self._passes[link] for link in links)
        found = self._mixes.cheapest(links, budget)
        if found is None:
            return None
        seconds, choices, price = found
        enough = seconds * (1 - PRECISE) - precise
        search = HeldEarly(self._succession, links, budget, self._in_flight, price)
        bound, cheap, dear = search.bound(enough)
        if bound < enough:
            other = Bettered(self._succession, links, budget, self._in_flight).best(cheap, dear)
            if other is not None and other[0] < seconds:
                seconds, choices = other
        return Laid(seconds, min(bound, seconds), self._numbers(links, choices))

    def _at_ease(self, links: Sequence[int], budget: float) -> Laid | None:
        """Every block at its quickest choice, if all of them fit."""
        choices = [self._quickest[link] for link in links]
        paths = self._succession.paths(links, np.array([choices]), np.zeros(1))
        needed = self._in_flight * float(paths.kept.sum()) + float(paths.working[0])
        if needed > budget * (1 + ROUNDING):
            return None
        least = float(paths.seconds.sum())
        return Laid(least, least, self._numbers(links, choices))

    def _numbers(self, links: Sequence[int], choices: Sequence[int]) -> tuple[int, ...]:
        """Choices as rows of each link's placements."""
        pairs = zip(links, choices, strict=True)
        return tuple(int(self._made[link].numbers[choice]) for link, choice in pairs)


def hull_prices(made: Sequence[Held], in_flight: int) -> Floats:
    """Prices of a kept byte at which the best choice of some block changes."""
    slopes = []
    for one in made:
        weight = one.kept + (one.needs + one.early) / (in_flight * 8)
        order = np.lexsort((one.seconds, weight))
        rows = (np.arange(len(order)),)
        slopes.append(level_of([weight[order]], [one.seconds[order]], rows).prices)
    found = np.unique(np.concatenate(slopes))
    return found[found > 0]


def alone_cells(made: Sequence[Held], behind: Sequence[float], in_flight: int) -> AloneCells:
    """Bounds of runs of these links."""
    return AloneCells(made, behind, in_flight, few(hull_prices(made, in_flight), MOST_BOUNDED))


@lru_cache(maxsize=256)
def as_frontier(made: Placements) -> Frontier:
    """Placements of a stage that holds all it rebuilds at once, whenever that was."""
    return Frontier(made.choices, made.kept, made.seconds, made.rebuilt)


@lru_cache(maxsize=1024)
def _that_matter(made: Placements, in_flight: int, block: Block) -> Held:
    """The placements that none replaces: kept bytes weigh ``in_flight`` times in a stage."""
    kept = in_flight * made.kept
    costs = [made.kept, made.seconds, kept + made.rebuilt, kept + made.early]
    rows = np.sort(undominated_rows(np.stack(costs, axis=1)))
    rows = rows[np.argsort(made.early[rows], kind="stable")]
    return Held(
        kept=made.kept[rows],
        seconds=made.seconds[rows],
        needs=made.rebuilt[rows] + block.working_bytes,
        early=made.early[rows],
        numbers=rows,
    )
