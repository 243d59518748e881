"""Runs of blocks told apart by their order, for choices that tie neighbouring blocks together.

A block's recompute may use windows of the block that follows it on the same stage. So what a run
may choose depends on which kind follows which, not on counts alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from solver.partition.runs import Index, Signatures
from solver.recompute.placed import Link


@dataclass(frozen=True, eq=False)
class Orders:
    """The distinct orders of blocks among the runs of a sequence of K kinds.

    ``signatures.counts`` has K + 1 columns: blocks of each kind, and the number of the order.
    ``links`` names every link there can be; ``linked`` counts them per order, shape (orders,
    links).
    """

    sequence: tuple[int, ...]
    signatures: Signatures
    spans: tuple[tuple[int, int], ...]
    links: tuple[Link, ...]
    linked: Index

    def run(self, order: int) -> tuple[int, ...]:
        """The kinds of an order, in the order of the model."""
        start, stop = self.spans[order]
        return self.sequence[start:stop]

    def places(self, order: int) -> list[int]:
        """The link of each of an order's blocks."""
        run = self.run(order)
        following = (*run[1:], None)
        number = {link: at for at, link in enumerate(self.links)}
        return [number[link] for link in zip(run, following, strict=True)]


@lru_cache(maxsize=32)
def orders(sequence: tuple[int, ...], kinds: int) -> Orders:
    """The orders of all runs of a sequence."""
    length = len(sequence)
    kind = np.array(sequence)
    of_run = np.full((length + 1, length + 1), -1, dtype=np.int64)
    spans: list[tuple[int, int]] = []
    shorter = np.zeros(length, dtype=np.int64)
    for size in range(1, length + 1):
        starts = np.arange(length - size + 1)
        key = shorter[starts] * kinds + kind[starts + size - 1]
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        shorter = number.ravel()
        of_run[starts, starts + size] = len(spans) + shorter
        spans += [(int(start), int(start) + size) for start in first.tolist()]
    links = _links(sequence)
    place = {link: at for at, link in enumerate(links)}
    after = np.zeros((length + 1, len(links)), dtype=np.int64)
    counts = np.zeros((length + 1, kinds), dtype=np.int64)
    for at, here in enumerate(sequence):
        after[at + 1], counts[at + 1] = after[at], counts[at]
        counts[at + 1, here] += 1
        if at + 1 < length:
            after[at + 1, place[here, sequence[at + 1]]] += 1
    start, stop = np.array(spans).T
    linked = after[stop - 1] - after[start]
    last = np.array([place[sequence[at - 1], None] for at in stop.tolist()])
    linked[np.arange(len(spans)), last] += 1
    told = np.concatenate([counts[stop] - counts[start], np.arange(len(spans))[:, None]], axis=1)
    return Orders(sequence, Signatures(of_run, told), tuple(spans), links, linked)


def _links(sequence: tuple[int, ...]) -> tuple[Link, ...]:
    pairs: dict[Link, None] = {}
    for here, following in itertools.pairwise(sequence):
        pairs[here, following] = None
    for here in sequence:
        pairs[here, None] = None
    return tuple(pairs)
