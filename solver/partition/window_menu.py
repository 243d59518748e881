"""A menu whose blocks may recompute in windows, of their own backward or the next block's.

Blocks of a stage are then tied together in pairs. Small stages are summed up exactly
(``chains.py``). In larger ones windows are mostly shared out without loss
(``recompute/lending.py``), and an :class:`EarlyMenu` over links decides them; a stage that
recomputes ahead holds all it rebuilds at once, so that a :class:`GatheredMenu` does so exactly.

Where windows stay contested each is given to its own block or to the block before it as a whole
(``shared_windows.py``), which unties the blocks again: a :class:`FreeMenu` over links decides them,
and two relaxations bound what it may miss:

- windows filled to the last second: the least recompute without windows, less all their seconds;
- windows not shared: every block has its own and the following block's windows to itself.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.chains import Chain, Chains
from solver.partition.core import ROUNDING
from solver.partition.early_menu import EarlyMenu, as_frontier
from solver.partition.free_menu import FreeMenu
from solver.partition.gathered_menu import GatheredMenu
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.partition.orders import Orders, orders
from solver.partition.runs import Signatures
from solver.partition.shared_windows import shares, unshared
from solver.recompute.choice import Choice
from solver.recompute.frontier import Frontier
from solver.recompute.placed import Link, lendings, link_placements, some_placements
from solver.recompute.placements import Placements
from solver.recompute.windows import windows

MOST_CONTESTED = 2
"""Blocks with contested windows beside which those of all others are shared out without loss."""


class WindowMenu(Menu):
    """Any choice for any block, windows included.

    Args:
        costs: The blocks, capacity and reserved bytes.
        frontiers: What each kind may choose without windows.
        gathers: Whether stages hold all they rebuild at once, as those that recompute ahead.
    """

    def __init__(
        self, costs: PipelineCosts, frontiers: tuple[Frontier, ...], *, gathers: bool = False
    ) -> None:
        self._costs, self._gathers = costs, gathers
        self._menu: type[FreeMenu] | type[GatheredMenu] = GatheredMenu if gathers else FreeMenu
        self._plain = self._menu(costs, frontiers)
        self._orders: Orders = orders(costs.sequence, len(costs.blocks))
        self._chains = Chains(costs, self._placements, self._lengths, gathers=gathers)
        self._some: dict[Link, Placements] = {}
        self._untied = self._without_contest()
        self._shares: list[FreeMenu | GatheredMenu] | None = None
        self._known: dict[tuple[int, float, int], Mix | None] = {}
        filled = [
            sum(window.seconds for window in windows(block, costs.overlapping))
            * max(1.0 - costs.overlapping.charge, 0.0)
            for block in costs.blocks
        ]
        self._filled = np.array(filled)
        if self._untied is None:
            fronts = tuple(unshared(costs, link) for link in self._orders.links)
            self._unshared = self._menu(_by_link(costs, self._orders), fronts)

    def _without_contest(self) -> EarlyMenu | GatheredMenu | None:
        """The menu over links where windows are shared out without loss, or None."""
        links = self._orders.links
        contested = [bool(one.contested) for one in lendings(self._costs, links)]
        if sum(contested[kind] for kind in self._costs.sequence) > MOST_CONTESTED:
            return None
        made = [self._placements(link) for link in links] if not any(contested) else []
        found = tuple(one for one in made if one is not None)
        if len(found) < len(links):
            if self._gathers:
                return None
            some = [some_placements(self._costs, link, links) for link in links]
            pairs = [pair for pair in some if pair is not None]
            if len(pairs) < len(links):
                return None
            self._some = {link: pair[0] for link, pair in zip(links, pairs, strict=True)}
            taken, bounding = zip(*pairs, strict=True)
            return EarlyMenu(self._costs, links, taken, bounding)
        if self._gathers:
            return GatheredMenu(_by_link(self._costs, self._orders), tuple(map(as_frontier, found)))
        return EarlyMenu(self._costs, links, found)

    @property
    def alone(self) -> FreeMenu:
        """The menu of blocks that use their own windows only, tied to no neighbour."""
        own = {kind: at for at, (kind, after) in enumerate(self._orders.links) if after is None}
        share = shares(self._costs, self._orders.links, gathers=False)[0]
        fronts = tuple(share.frontiers[own[kind]] for kind in range(len(self._costs.blocks)))
        return FreeMenu(self._costs, fronts)

    def signatures(self) -> Signatures:
        """Runs told apart by the order of their blocks."""
        return self._orders.signatures

    def signature(self, run: tuple[int, ...], kinds: int) -> tuple[int, ...]:  # noqa: ARG002
        """The counts of one run, and the number of its order."""
        length = len(run)
        starts = range(len(self._costs.sequence) - length + 1)
        start = next(s for s in starts if self._costs.sequence[s : s + length] == run)
        order = int(self._orders.signatures.of_run[start, start + length])
        return tuple(self._orders.signatures.counts[order].tolist())

    def bounds(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The larger of both relaxations' bounds."""
        kinds, order = counts[:, :-1], counts[:, -1]
        if self._untied is not None:
            return self._untied.bounds(self._orders.linked[order], states, in_flight)
        filled = self._plain.bounds(kinds, states, in_flight) - kinds @ self._filled
        alone = self._unshared.bounds(self._orders.linked[order], states, in_flight)
        return np.asarray(np.maximum(filled, alone))

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least: windows save no memory."""
        return self._plain.least_bytes(counts[:, :-1], states, in_flight)

    def slowest(self, counts: Index) -> Floats:
        """Every block at its slowest choice, nothing hidden."""
        return self._plain.slowest(counts[:, :-1])

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix, in the order of the model."""
        found = [
            Part(self._orders.links[link][0], self._choice(link, choice), count)
            for link, choice, count in mix.parts
        ]
        joined: list[Part] = []
        for part in found:
            if joined and (joined[-1].kind, joined[-1].choice) == (part.kind, part.choice):
                part = replace(part, count=joined.pop().count + part.count)
            joined.append(part)
        return tuple(joined)

    def cheapest(self, counts: tuple[int, ...], states: float, in_flight: int) -> Mix | None:
        """The cheapest mix of a run, or None if nothing fits."""
        key = (counts[-1], states, in_flight)
        if key not in self._known:
            self._known[key] = self._search(*key)
        return self._known[key]

    def _search(self, order: int, states: float, in_flight: int) -> Mix | None:
        exact = isinstance(self._untied, GatheredMenu) or (
            self._untied is not None and self._untied.exact
        )
        chain = None if exact else self._chains.of(self._orders.run(order))
        if chain is not None:
            return self._of_chain(chain, order, states, in_flight)
        if self._untied is not None:
            return self._of_links(self._untied, order, states, in_flight)
        return self._of_shares(order, states, in_flight)

    def _of_links(
        self, menu: EarlyMenu | GatheredMenu, order: int, states: float, in_flight: int
    ) -> Mix | None:
        """Any order of the choices of a link among its blocks will do."""
        linked = tuple(self._orders.linked[order].tolist())
        mix = menu.cheapest(linked, states, in_flight)
        if mix is None:
            return None
        return self._mix(mix.seconds, mix.bound, self._laid_out(mix, order, _ALL))

    def _laid_out(self, mix: Mix, order: int, share: int) -> list[tuple[int, int]]:
        """The link and the choice of every block, in the order of the model."""
        links = self._orders.places(order)
        waiting: dict[int, deque[int]] = {}
        for taker, choice, count in mix.parts:
            waiting.setdefault(taker, deque()).extend([choice] * count)
        takers = [self._orders.links[link][0] for link in links] if share == _PLAIN else links
        return [
            (link, _named(share, waiting[taker].popleft()))
            for link, taker in zip(links, takers, strict=True)
        ]

    def _of_chain(self, chain: Chain, order: int, states: float, in_flight: int) -> Mix | None:
        budget = self._costs.capacity_bytes * (1 + ROUNDING) - self._costs.reserved_bytes - states
        beside = chain.working
        if self._gathers:
            run = self._orders.run(order)
            beside = chain.rebuilt + max(self._costs.blocks[kind].working_bytes for kind in run)
        fits = in_flight * chain.kept + beside <= budget
        if not fits.any():
            return None
        at = int(np.argmin(np.where(fits, chain.seconds, np.inf)))
        seconds = float(chain.seconds[at])
        links = self._orders.places(order)
        decided = [
            (link, _named(_ALL, choice))
            for link, choice in zip(links, chain.choices(at), strict=True)
        ]
        return self._mix(seconds, seconds, decided)

    def _of_shares(self, order: int, states: float, in_flight: int) -> Mix | None:
        """The best way to give windows away as a whole, or to leave them empty."""
        linked = tuple(self._orders.linked[order].tolist())
        kinds = tuple(self._orders.signatures.counts[order, :-1].tolist())
        plain = self._plain.cheapest(kinds, states, in_flight)
        if plain is None:
            return None
        best, which = plain, _PLAIN
        for at, menu in enumerate(self._shared_menus()):
            found = menu.cheapest(linked, states, in_flight)
            if found is not None and found.seconds < best.seconds:
                best, which = found, at
        alone = self._unshared.cheapest(linked, states, in_flight)
        bound = max(0.0, plain.bound - float(np.array(kinds) @ self._filled))
        if alone is not None:
            bound = max(bound, alone.bound)
        return self._mix(best.seconds, min(bound, best.seconds), self._laid_out(best, order, which))

    def _mix(self, seconds: float, bound: float, decided: list[tuple[int, int]]) -> Mix:
        hidden = sum(self._choice(link, choice).hidden_seconds for link, choice in decided)
        charged = self._costs.overlapping.charge * hidden
        return Mix(seconds, bound, _grouped(decided), charged)

    def _shared_menus(self) -> list[FreeMenu | GatheredMenu]:
        if self._shares is None:
            costs = _by_link(self._costs, self._orders)
            found = shares(self._costs, self._orders.links, gathers=self._gathers)
            self._shares = [self._menu(costs, share.frontiers) for share in found]
        return self._shares

    def _placements(self, link: Link) -> Placements | None:
        """Every placement of a link, or some where they are too many; None: not looked at."""
        if link in self._some:
            return self._some[link]
        return link_placements(self._costs, link, self._orders.links, gathers=self._gathers)

    def _lengths(self, kind: int) -> Floats:
        found = lendings(self._costs, self._orders.links)[kind].contested
        return np.array([window.seconds for window in found])

    def _choice(self, link: int, named: int) -> Choice:
        """A choice of a link by its name in mixes."""
        row, share = divmod(named, _SHARES)
        if share - _FIRST == _PLAIN:
            return self._plain.frontiers[self._orders.links[link][0]].choices[row]
        if share - _FIRST == _ALL:
            made = self._placements(self._orders.links[link])
            assert made is not None, "a choice is one of placements"
            return made.choices[row]
        return self._shared_menus()[share - _FIRST].frontiers[link].choices[row]


_ALL, _PLAIN = -1, -2
"""Beside the numbers of shares: every placement, and none."""

_SHARES, _FIRST = 8, 2
"""More than there are shares, and the place of the first one among them."""


def _named(share: int, row: int) -> int:
    """A choice by the share whose it is, and its row there."""
    return row * _SHARES + share + _FIRST


def _by_link(costs: PipelineCosts, found: Orders) -> PipelineCosts:
    """The costs with one block per link."""
    return replace(costs, blocks=tuple(costs.blocks[kind] for kind, _ in found.links))


def _grouped(decided: list[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """(link, choice, count) of blocks in their order, equal neighbours together."""
    return tuple(
        (link, choice, len(list(group))) for (link, choice), group in itertools.groupby(decided)
    )
