"""From the two sides of a price to choices that fit: joined, then bettered block by block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.partition.core import PRECISE, ROUNDING
from solver.partition.menu import Floats, Index
from solver.partition.succession import Paths, Succession

MOST_BETTERED = 3
"""Joined choices that are bettered."""

MOST_CHANGES = 6
"""Blocks whose choice is bettered one after the other."""


class Bettered:
    """Choices of one stage.

    Args:
        succession: What may follow what.
        links: The link of every block, in the order of the model.
        budget: Bytes beside states and reserve.
        in_flight: Micro-batches in flight.
    """

    def __init__(
        self, succession: Succession, links: Sequence[int], budget: float, in_flight: int
    ) -> None:
        self._succession, self._links, self._in_flight = succession, links, in_flight
        self._within = budget + abs(budget) * ROUNDING

    def best(self, cheap: Index, dear: Index) -> tuple[float, tuple[int, ...]] | None:
        """The best of what fits, and its seconds; None if nothing does.

        ``cheap`` keep too much or just enough, ``dear`` little enough; shape (pairs, blocks).
        """
        some = self._joined(self._paths(cheap), self._paths(dear))
        if not len(some.choices):
            return None
        best, chosen = np.inf, some.choices[0]
        for _ in range(MOST_CHANGES):
            seconds = some.seconds.sum(axis=1)
            at = int(seconds.argmin())
            if seconds[at] < best * (1 - PRECISE):
                best, chosen = float(seconds[at]), some.choices[at]
            changed = self._one_changed(some)
            if not len(changed):
                break
            some = self._paths(changed)
        return best, tuple(chosen.tolist())

    def _paths(self, choices: Index) -> Paths:
        return self._succession.paths(self._links, choices, np.zeros(len(choices)))

    def _joined(self, cheap: Paths, dear: Paths) -> Paths:
        """The first blocks of one side with the last of the other: the best of some pairs."""
        seconds = []
        for first, second in ((dear, cheap), (cheap, dear)):
            kept = _sums(first.kept, second.kept)
            fits = self._in_flight * kept + _working(first, second) <= self._within
            seconds.append(np.where(fits, _sums(first.seconds, second.seconds), np.inf))
        every = np.concatenate(seconds, axis=1)
        best = every.argmin(axis=1)
        least = every[np.arange(len(every)), best]
        order = np.argsort(least, kind="stable")[:MOST_BETTERED]
        order = order[np.isfinite(least[order])]
        way, cut = np.divmod(best[order], seconds[0].shape[1])
        ahead = np.arange(len(self._links)) < cut[:, None]
        of_dear = ahead == (way == 0)[:, None]
        return self._paths(np.where(of_dear, dear.choices[order], cheap.choices[order]))

    def _one_changed(self, some: Paths) -> Index:
        """The choices that one change betters, so changed; shape (betters, blocks)."""
        before, behind = np.zeros_like(some.early), np.zeros_like(some.needs)
        before[:, 1:], behind[:, :-1] = some.early[:, :-1], some.needs[:, 1:]
        others = _largest_without(some.needs + before)
        room = self._within - self._in_flight * (some.kept.sum(axis=1)[:, None] - some.kept)
        best = np.zeros(some.kept.shape)
        choice = np.full(some.kept.shape, -1)
        for link in dict.fromkeys(self._links):
            at = np.flatnonzero(np.array(self._links) == link)
            mine = self._succession.held[link]
            working = np.maximum(mine.needs + before[:, at, None], mine.early + behind[:, at, None])
            working = np.maximum(working, others[:, at, None])
            fits = self._in_flight * mine.kept + working <= room[:, at, None]
            gain = np.where(fits, mine.seconds - some.seconds[:, at, None], 0.0)
            choice[:, at] = gain.argmin(axis=2)
            best[:, at] = gain.min(axis=2)
        rows, place = np.arange(len(best)), best.argmin(axis=1)
        choices = some.choices.copy()
        choices[rows, place] = choice[rows, place]
        enough = best[rows, place] < -PRECISE * some.seconds.sum(axis=1)
        return np.asarray(choices[enough])


def _sums(first: Floats, second: Floats) -> Floats:
    """Sums over the first k blocks of one and the others of another, (pairs, blocks + 1)."""
    ahead = np.zeros((len(first), first.shape[1] + 1))
    behind = np.zeros_like(ahead)
    np.cumsum(first, axis=1, out=ahead[:, 1:])
    behind[:, :-1] = np.cumsum(second[:, ::-1], axis=1)[:, ::-1]
    return ahead + behind


def _working(first: Paths, second: Paths) -> Floats:
    """Likewise, the working memory."""
    ahead = np.zeros((len(first.needs), first.needs.shape[1] + 1))
    behind = np.zeros_like(ahead)
    np.maximum.accumulate(_beside(first, first), axis=1, out=ahead[:, 1:])
    alone = np.maximum.accumulate(_beside(second, second)[:, ::-1], axis=1)[:, ::-1]
    behind[:, :-1] = _beside(first, second)
    behind[:, :-2] = np.maximum(behind[:, :-2], alone[:, 1:])
    return np.maximum(ahead, behind)


def _beside(first: Paths, second: Paths) -> Floats:
    """What each block needs behind the one before it, that of another path."""
    beside = second.needs.copy()
    beside[:, 1:] += first.early[:, :-1]
    return beside


def _largest_without(beside: Floats) -> Floats:
    """For each block, the largest of these without its own and that of the block behind it."""
    found = np.zeros_like(beside)
    found[:, 1:] = np.maximum.accumulate(beside, axis=1)[:, :-1]
    later = np.maximum.accumulate(beside[:, ::-1], axis=1)[:, ::-1]
    found[:, :-2] = np.maximum(found[:, :-2], later[:, 2:])
    return found
