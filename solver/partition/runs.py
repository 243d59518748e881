"""Runs of blocks: what a stage holds, and what every run adds up to.

A run is a half-open interval [start, stop) of the model's sequence. Runs with the same count of
every block kind are the same to a stage, whatever their place; they share a *signature*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import PipelineCosts

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Signatures:
    """The distinct runs of a sequence of L blocks of K kinds.

    ``of_run`` has shape (L + 1, L + 1): the signature of [start, stop), or -1 where start >= stop.
    ``counts`` has shape (signatures, K).
    """

    of_run: Index
    counts: Index

    def loads(self, passes: Floats) -> Floats:
        """Seconds of all blocks before each cut, given those of every signature."""
        return np.concatenate([[0.0], passes[self.of_run[0, 1:]]])


@lru_cache(maxsize=32)
def signatures(sequence: tuple[int, ...], kinds: int) -> Signatures:
    """The signatures of all runs of a sequence."""
    length = len(sequence)
    prefix = np.zeros((length + 1, kinds), dtype=np.int64)
    prefix[1:] = np.cumsum(np.eye(kinds, dtype=np.int64)[list(sequence)], axis=0)
    starts, stops = np.triu_indices(length + 1, k=1)
    counts = prefix[stops] - prefix[starts]
    distinct, inverse = np.unique(counts, axis=0, return_inverse=True)
    of_run = np.full((length + 1, length + 1), -1, dtype=np.int64)
    of_run[starts, stops] = inverse.ravel()
    return Signatures(of_run, distinct)


@dataclass(frozen=True, eq=False)
class RunTotals:
    """What a signature adds up to, each of shape (signatures,).

    ``forward`` and ``backward`` are seconds of one micro-batch, recompute apart; ``weight`` those
    of the gradients of weights where they are work of their own, else zero; ``before_first``,
    ``after_last`` and ``step`` are the exposed weight gather, gradient reduction and update, once
    per iteration.
    """

    forward: Floats
    backward: Floats
    states: Floats
    before_first: Floats
    after_last: Floats
    step: Floats
    weight: Floats


def chained(totals: list[RunTotals]) -> RunTotals:
    """The totals of several kinds of device one after the other, (kinds x signatures,)."""

    def chain(part: str) -> Floats:
        return np.concatenate([getattr(one, part) for one in totals])

    if len(totals) == 1:
        return totals[0]
    return RunTotals(
        forward=chain("forward"),
        backward=chain("backward"),
        states=chain("states"),
        before_first=chain("before_first"),
        after_last=chain("after_last"),
        step=chain("step"),
        weight=chain("weight"),
    )


def run_totals(costs: PipelineCosts, counts: Index, *, splits_backward: bool = False) -> RunTotals:
    """Totals of every signature under these costs.

    With ``splits_backward`` the gradients of weights are no part of ``backward``.
    """

    def total(values: list[float]) -> Floats:
        return np.asarray(counts @ np.array(values, dtype=np.float64))

    blocks = costs.blocks
    forward = total([block.forward_seconds for block in blocks])
    backward = total([block.backward_seconds for block in blocks])
    weight = total([block.weight_seconds if splits_backward else 0.0 for block in blocks])
    gather = total([block.gather_seconds for block in blocks])
    reduction = total([block.gradient_seconds for block in blocks])
    return RunTotals(
        forward=forward,
        backward=np.maximum(backward - weight, 0.0) if splits_backward else backward,
        states=total([block.states.total for block in blocks]),
        before_first=np.maximum(gather - costs.gather_overlap * forward, 0.0),
        after_last=np.maximum(reduction - costs.gradient_overlap * backward, 0.0),
        step=total([block.optimizer_seconds for block in blocks]),
        weight=weight,
    )
