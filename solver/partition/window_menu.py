"""A menu whose blocks may recompute in windows, of their own backward or the next block's.

Blocks of a stage are then tied together in pairs. Small stages are summed up exactly
(``chains.py``). In larger ones windows are mostly shared out without loss
(``recompute/lending.py``), and an :class:`EarlyMenu` over links decides them; a stage that
recomputes ahead holds all it rebuilds at once, so that a :class:`GatheredMenu` does so exactly.

A window that stays contested is given to its own block or lent as a whole. What that misses is
bounded by two relaxations: contested windows endless for every block that wants them, and windows
filled to the last second, which is the least recompute without windows less all their seconds.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace
from functools import cached_property

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.alone_cells import AloneCells
from solver.partition.chains import Chain, Chains
from solver.partition.core import ROUNDING
from solver.partition.early_menu import EarlyMenu, alone_cells, as_frontier
from solver.partition.free_menu import FreeMenu
from solver.partition.gathered_menu import GatheredMenu
from solver.partition.menu import Floats, Index, Menu, Mix, Part
from solver.partition.orders import Orders, orders
from solver.partition.runs import Signatures
from solver.partition.succession import Held
from solver.recompute.choice import Choice
from solver.recompute.frontier import Frontier
from solver.recompute.placed import (
    Link,
    lendings,
    link_placements,
    own_placements,
    some_placements,
)
from solver.recompute.placements import Placements
from solver.recompute.windows import windows


class WindowMenu(Menu):
    """Any choice for any block, windows included.

    Args:
        costs: The blocks, capacity and reserved bytes.
        frontiers: What each kind may choose without windows.
        on_demand: Given for stages that recompute ahead, and so hold all they rebuild at once:
            the menu of the same blocks on demand. Its choices, held so, bound those ahead, which
            are not made before a mix is asked for.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        *,
        on_demand: WindowMenu | None = None,
    ) -> None:
        self._costs, self._gathers, self._on_demand = costs, on_demand is not None, on_demand
        menu: type[FreeMenu] | type[GatheredMenu] = GatheredMenu if self._gathers else FreeMenu
        self._plain = menu(costs, frontiers)
        self._orders: Orders = orders(costs.sequence, len(costs.blocks))
        self._chains = Chains(costs, self._placements, self._lengths, gathers=self._gathers)
        self._known: dict[tuple[int, float, int], Mix | None] = {}
        self._cells: dict[int, AloneCells] = {}
        self._choices: dict[tuple[int, int], Choice] = {}
        filled = [
            sum(window.seconds for window in windows(block, costs.overlapping))
            * max(1.0 - costs.overlapping.charge, 0.0)
            for block in costs.blocks
        ]
        self._filled = np.array(filled)
        by_link = tuple(costs.blocks[kind] for kind, _ in self._orders.links)
        self._by_link = replace(costs, blocks=by_link)

    @cached_property
    def _placed(self) -> tuple[tuple[Placements, ...], tuple[Placements, ...] | None]:
        """The choices of each link, and those that bound them; None: they are all there are."""
        links = self._orders.links
        if not any(one.contested for one in lendings(self._costs, links)):
            every = [self._placements(link) for link in links]
            made = tuple(one for one in every if one is not None)
            if len(made) == len(links):
                return made, None
        pairs = [some_placements(self._costs, link, links, gathers=self._gathers) for link in links]
        made, bounding = zip(*pairs, strict=True)
        return tuple(made), tuple(bounding)

    @cached_property
    def _early(self) -> EarlyMenu | None:
        """What decides links where some hold recompute for others."""
        made, _ = self._placed
        early = None if self._gathers else EarlyMenu(self._costs, self._orders.links, made)
        return None if early is None or early.exact else early

    @cached_property
    def _untied(self) -> FreeMenu | GatheredMenu | None:
        """What decides them where none does."""
        return self._free(self._placed[0]) if self._early is None else None

    @cached_property
    def _bounding(self) -> FreeMenu | GatheredMenu | None:
        made = self._placed[1]
        return self._free(made) if made else None

    def _free(self, made: tuple[Placements, ...]) -> FreeMenu | GatheredMenu:
        """The menu of links where blocks do not depend on each other."""
        fronts = tuple(as_frontier(one) for one in made)
        return (GatheredMenu if self._gathers else FreeMenu)(self._by_link, fronts)

    @cached_property
    def _gathered(self) -> GatheredMenu:
        """A relaxation of the menu ahead: every choice on demand, all that is rebuilt held."""
        made, bounding = self._placed
        return GatheredMenu(self._by_link, tuple(as_frontier(one) for one in bounding or made))

    @property
    def alone(self) -> FreeMenu:
        """The menu of blocks that use their own windows only, tied to no neighbour."""
        costs, fronts = self._costs, []
        budgets = () if self._gathers else costs.offload_bytes
        for block, most in zip(costs.blocks, budgets or (0.0,) * len(costs.blocks), strict=True):
            made = own_placements(block, costs.overlapping, ahead=self._gathers, offload_bytes=most)
            fronts.append(as_frontier(made))
        return FreeMenu(self._costs, tuple(fronts))

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
        """Windows shared out without loss; where some are contested, the larger relaxation."""
        kinds, order = counts[:, :-1], counts[:, -1]
        linked = self._orders.linked[order]
        if self._on_demand is not None:
            found = self._on_demand._gathered.bounds(linked, states, in_flight)
            contested = self._on_demand._bounding is not None
        else:
            menu = self._bounding or self._untied or self._early
            assert menu is not None, "blocks are tied together or they are not"
            found = menu.bounds(linked, states, in_flight)
            contested = self._bounding is not None
        if contested:
            filled = self._plain.bounds(kinds, states, in_flight) - kinds @ self._filled
            found = np.maximum(found, filled)
        return found

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least: windows save no memory."""
        return self._plain.least_bytes(counts[:, :-1], states, in_flight)

    def slowest(self, counts: Index) -> Floats:
        """Every block at its slowest choice, nothing hidden."""
        return self._plain.slowest(counts[:, :-1])

    def quick(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Nothing hidden."""
        return self._plain.quick(counts[:, :-1], states, in_flight)

    def parts(self, mix: Mix) -> tuple[Part, ...]:
        """The choices behind a mix, in the order of the model."""
        joined: list[Part] = []
        for link, named, count in mix.parts:
            part = Part(self._orders.links[link][0], self._choice(link, named), count)
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
        if self._bounding is not None or self._early is not None:
            chain = self._chains.of(self._orders.run(order))
            if chain is not None:
                return self._of_chain(chain, order, states, in_flight)
        return self._of_links(order, states, in_flight)

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
            (link, _named(_CHAINED, choice))
            for link, choice in zip(links, chain.choices(at), strict=True)
        ]
        return self._mix(seconds, seconds, decided)

    def _of_links(self, order: int, states: float, in_flight: int) -> Mix | None:
        """Choices block by block; or no windows, if that is less."""
        linked = tuple(self._orders.linked[order].tolist())
        found = self._decided(order, linked, states, in_flight)
        seconds, bound, decided = found or (np.inf, 0.0, [])
        if self._bounding is not None:
            least = self._bounding.cheapest(linked, states, in_flight)
            bound = 0.0 if least is None else least.bound
        elif found and self._early is None:
            return self._mix(seconds, bound, decided)
        kinds = tuple(self._orders.signatures.counts[order, :-1].tolist())
        plain_bound = self._without_windows(kinds, states, in_flight)
        if plain_bound < seconds:
            plain = self._plain.cheapest(kinds, states, in_flight)
            if plain is not None:
                plain_bound = plain.bound
                if plain.seconds < seconds:
                    seconds, decided = plain.seconds, self._shared_out(plain, order, _PLAIN)
        if not decided:
            return None
        bound = max(bound, plain_bound - float(np.array(kinds) @ self._filled))
        return self._mix(seconds, min(bound, seconds), decided)

    def _decided(
        self, order: int, linked: tuple[int, ...], states: float, in_flight: int
    ) -> tuple[float, float, list[tuple[int, int]]] | None:
        """Seconds, a bound, and every block's choice, windows shared out among blocks."""
        if self._early is None:
            assert self._untied is not None, "nothing ties blocks together"
            mix = self._untied.cheapest(linked, states, in_flight)
            if mix is None:
                return None
            return mix.seconds, mix.bound, self._shared_out(mix, order, _UNTIED)
        links = self._orders.places(order)
        laid = self._early.laid_out(links, states, in_flight)
        if laid is None:
            return None
        named = [_named(_UNTIED, choice) for choice in laid.choices]
        return laid.seconds, laid.bound, list(zip(links, named, strict=True))

    def _without_windows(self, kinds: tuple[int, ...], states: float, in_flight: int) -> float:
        """Seconds that no mix without windows is below."""
        counts = np.array([kinds])
        if isinstance(self._plain, GatheredMenu):
            return float(self._plain.bounds(counts, np.array([states]), np.array([in_flight]))[0])
        if in_flight not in self._cells:
            held = [
                Held(front.kept, front.seconds, front.rebuilt + block.working_bytes, nothing, rows)
                for front, block in zip(self._plain.frontiers, self._costs.blocks, strict=True)
                for nothing, rows in [(np.zeros(len(front.kept)), np.arange(len(front.kept)))]
            ]
            self._cells[in_flight] = alone_cells(held, [0.0] * len(held), in_flight)
        budget = self._costs.capacity_bytes - self._costs.reserved_bytes - states
        return float(self._cells[in_flight].bounds(counts, np.array([budget]))[0])

    def _shared_out(self, mix: Mix, order: int, share: int) -> list[tuple[int, int]]:
        """The link and the choice of every block, a kind's or link's in any order."""
        links = self._orders.places(order)
        waiting: dict[int, deque[int]] = {}
        for taker, choice, count in mix.parts:
            waiting.setdefault(taker, deque()).extend([choice] * count)
        takers = [self._orders.links[link][0] for link in links] if share == _PLAIN else links
        return [
            (link, _named(share, waiting[taker].popleft()))
            for link, taker in zip(links, takers, strict=True)
        ]

    def _mix(self, seconds: float, bound: float, decided: list[tuple[int, int]]) -> Mix:
        hidden = sum(self._choice(link, choice).hidden_seconds for link, choice in decided)
        charged = self._costs.overlapping.charge * hidden
        return Mix(seconds, bound, _grouped(decided), charged)

    def _placements(self, link: Link) -> Placements | None:
        return link_placements(self._costs, link, self._orders.links, gathers=self._gathers)

    def _lengths(self, kind: int) -> Floats:
        found = lendings(self._costs, self._orders.links)[kind].contested
        return np.array([window.seconds for window in found])

    def _choice(self, link: int, named: int) -> Choice:
        """A choice of a link by its name in mixes."""
        if (link, named) not in self._choices:
            self._choices[link, named] = self._named_choice(link, named)
        return self._choices[link, named]

    def _named_choice(self, link: int, named: int) -> Choice:
        row, share = divmod(named, _SHARES)
        if share == _PLAIN:
            return self._plain.frontiers[self._orders.links[link][0]].choices[row]
        if share == _UNTIED:
            return self._placed[0][link].choices[row]
        made = self._placements(self._orders.links[link])
        assert made is not None, "a chain is made of placements"
        return made.choices[row]


_SHARES = 3
_UNTIED, _CHAINED, _PLAIN = range(_SHARES)
"""Where a choice is from: shared-out windows, a chain, or no windows at all."""


def _named(share: int, row: int) -> int:
    """A choice by where it is from, and its row there."""
    return row * _SHARES + share


def _grouped(decided: list[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """(link, choice, count) of blocks in their order, equal neighbours together."""
    return tuple(
        (link, choice, len(list(group))) for (link, choice), group in itertools.groupby(decided)
    )
