"""The blocks of a stage in their order, each with a choice that its neighbour leaves room for.

While a block runs backward, what the block before it placed in its windows is alive beside all that
it rebuilds itself. So within a working memory R a choice may follow another one where

    rebuilt + working  <=  R - early of the block before

With a price per kept byte the cheapest choices of all blocks are then a shortest path, found block
by block: of what stands before, only the early bytes of the last block matter to what may follow,
and fewer of them never leave less. One pass does so for many values of R and many prices at once,
by running minima over choices sorted by early bytes.

By weak duality the path's price less that of the kept bytes that fit is below every mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solver.partition.core import ROUNDING
from solver.partition.menu import Floats, Index

MOST_VALUES = 1024
"""Values of working memory told apart; between two of more of them the next higher stands in."""


@dataclass(frozen=True, eq=False)
class Held:
    """Some of a link's placements, by ascending early bytes.

    ``needs`` are a block's own bytes while it runs backward, rebuilt and temporary. ``numbers`` are
    the placements' rows.
    """

    kept: Floats
    seconds: Floats
    needs: Floats
    early: Floats
    numbers: Index


@dataclass(frozen=True, eq=False)
class Paths:
    """Choices of all blocks, one path per row; arrays have shape (paths, blocks).

    ``choices`` are rows of each block's ``Held``; ``total`` has shape (paths,), the least priced
    seconds, infinite where no path is.
    """

    total: Floats
    choices: Index
    kept: Floats
    seconds: Floats
    needs: Floats
    early: Floats

    @property
    def working(self) -> Floats:
        """The working memory that each path needs; shape (paths,)."""
        beside = self.needs.copy()
        beside[:, 1:] += self.early[:, :-1]
        return np.asarray(beside.max(axis=1))

    def at(self, rows: Index) -> Paths:
        """Some of the paths."""
        return Paths(
            self.total[rows],
            self.choices[rows],
            self.kept[rows],
            self.seconds[rows],
            self.needs[rows],
            self.early[rows],
        )


class Succession:
    """What may follow what, for every value that the working memory can take.

    Args:
        held: The choices of each link.
        pairs: Links that may stand next to each other, the earlier block's first.

    ``values``, ascending, are the values of working memory told apart. A stage whose working memory
    is at most ``values[i]`` and above the value before needs ``least[i]`` at least.
    """

    def __init__(self, held: Sequence[Held], pairs: Sequence[tuple[int, int]]) -> None:
        self.held = tuple(held)
        sums = [one.needs for one in held]
        for before, after in pairs:
            early = np.unique(self.held[before].early)
            sums.append(np.add.outer(early, np.unique(self.held[after].needs)).ravel())
        every = np.unique(np.concatenate(sums))
        self.values, self.least = every, every
        if len(every) > MOST_VALUES:
            places = np.linspace(0, len(every) - 1, MOST_VALUES).round().astype(int)
            self.values = every[places]
            self.least = np.append(every[0], every[np.minimum(places[:-1] + 1, len(every) - 1)])
        self._within = self.values * (1 + ROUNDING)
        sizes = [len(one.kept) for one in self.held]
        self._offset = np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64)
        self._every = Held(
            kept=np.concatenate([one.kept for one in self.held]),
            seconds=np.concatenate([one.seconds for one in self.held]),
            needs=np.concatenate([one.needs for one in self.held]),
            early=np.concatenate([one.early for one in self.held]),
            numbers=np.concatenate([one.numbers for one in self.held]),
        )

    def cheapest(self, links: Sequence[int], values: Index, prices: Floats) -> Paths:
        """The cheapest path for each pair of a value's place and a price; both of shape (paths,).

        Args:
            links: The link of every block, in the order of the model.
            values: Places in ``values``.
            prices: Seconds per kept byte.
        """
        distinct, which = np.unique(values, return_inverse=True)
        costs = {
            link: self.held[link].seconds + prices[:, None] * self.held[link].kept
            for link in set(links)
        }
        shifts = {}
        rows = np.arange(len(values))[:, None]
        totals: list[Floats] = []
        least = np.zeros((0, 0))
        for at, link in enumerate(links):
            if at == 0:
                fits = self.held[link].needs <= self._within[values][:, None]
                total = np.where(fits, costs[link], np.inf)
            else:
                pair = links[at - 1], link
                if pair not in shifts:
                    wide = len(self.held[pair[0]].kept) + 1
                    shifts[pair] = self._rank(pair, distinct)[which] + rows * wide
                total = costs[link] + least.ravel()[shifts[pair]]
            totals.append(total)
            least = np.empty((len(values), total.shape[1] + 1))
            least[:, 0] = np.inf
            np.minimum.accumulate(total, axis=1, out=least[:, 1:])
        return self._traced(links, values, totals)

    def _traced(self, links: Sequence[int], values: Index, totals: list[Floats]) -> Paths:
        """The paths behind the totals, from the last block back."""
        choices = np.empty((len(values), len(links)), dtype=np.int64)
        admitted = np.full(len(values), totals[-1].shape[1])
        within = self._within[values]
        for at in reversed(range(len(links))):
            total = totals[at]
            left = np.arange(total.shape[1]) < admitted[:, None]
            choices[:, at] = np.where(left, total, np.inf).argmin(axis=1)
            if at:
                before, after = self.held[links[at - 1]], self.held[links[at]]
                room = within - after.needs[choices[:, at]]
                admitted = np.searchsorted(before.early, room, side="right")
        return self.paths(links, choices, totals[-1].min(axis=1))

    def paths(self, links: Sequence[int], choices: Index, total: Floats) -> Paths:
        """Paths of these choices, shape (paths, blocks)."""
        rows = choices + self._offset[np.array(links)]
        return Paths(
            total=total,
            choices=choices,
            kept=self._every.kept[rows],
            seconds=self._every.seconds[rows],
            needs=self._every.needs[rows],
            early=self._every.early[rows],
        )

    def _rank(self, pair: tuple[int, int], values: Index) -> Index:
        """How many of a link's choices leave room for each of the next; shape (values, choices)."""
        before, after = (self.held[link] for link in pair)
        left = self._within[values][:, None] - after.needs
        return np.searchsorted(before.early, left, side="right")
