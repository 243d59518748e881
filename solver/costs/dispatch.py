"""Tokens on their way to their experts' ranks: how much is sent, and how long it takes.

Three dispatchers are in use (Megatron-LM, core/transformer/moe/token_dispatcher.py):

- ``alltoall`` sends a copy of a token for each of its experts, to each expert's rank by itself.
- ``forward`` sends a token once to every node that it is wanted on, to the rank there with the
  sender's number, which passes it on over the node's links, once to every rank that wants it
  (DeepEP's kernels, which Megatron-LM's flex dispatcher calls; DeepSeek-V3, arXiv:2412.19437,
  section 3.2.2). The way back sums on the same path.
- ``allgather`` gathers all tokens on all ranks and sums the outputs by a reduce-scatter.

Megatron-LM recommends the second between nodes (core/transformer/moe/README.md); where nothing is
said, it is taken there, and the first inside a node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from solver.cluster.collectives import (
    Group,
    Links,
    all_gather,
    all_to_all,
    forwarded_all_to_all,
)
from solver.workload.architecture import MixtureOfExperts
from solver.workload.implementation import Dispatcher


@dataclass(frozen=True)
class Reach:
    """Of the ranks and nodes of a group, how many a token is wanted on; expected values."""

    ranks: float
    nodes: float


def dispatcher_of(asked: Dispatcher, group: Group) -> Dispatcher:
    """The dispatcher that runs: that asked for, or what suits the group."""
    if asked is not Dispatcher.AUTO:
        return asked
    return Dispatcher.FORWARD if group.nodes > 1 else Dispatcher.ALL_TO_ALL


def dispatch_seconds(
    moe: MixtureOfExperts,
    row_bytes: float,
    group: Group,
    links: Links,
    asked: Dispatcher,
    imbalance: float = 1.0,
) -> float:
    """Seconds to bring the rows of every rank to their experts' ranks, or back.

    Args:
        moe: Experts and how a token picks among them.
        row_bytes: Rows of one rank, each counted once.
        group: The ranks over which the experts are spread.
        links: What joins them.
        asked: The dispatcher.
        imbalance: Copies that the busiest rank is sent, over the mean.
    """
    match dispatcher_of(asked, group):
        case Dispatcher.ALL_GATHER:
            return all_gather(row_bytes * group.size, group, links)
        case Dispatcher.FORWARD:
            wanted = reach(moe, group)
            return forwarded_all_to_all(
                imbalance * row_bytes, wanted.ranks, wanted.nodes, group, links
            )
        case _:
            return all_to_all(imbalance * row_bytes * moe.experts_per_token, group, links)


@lru_cache(maxsize=1024)
def reach(moe: MixtureOfExperts, group: Group) -> Reach:
    """How many ranks and nodes of ``group`` a token's experts lie on, expected.

    Every rank holds equally many experts, consecutive ones, and a token picks at random.
    """
    return Reach(_distinct(moe, group.size), _distinct(moe, group.nodes))


def _distinct(moe: MixtureOfExperts, parts: int) -> float:
    """Of equal parts of the experts, how many a token picks from, expected.

    Picking k of E experts misses a part of n with the hypergeometric probability
    C(E - n, k) / C(E, k). A router that picks groups first (DeepSeek-V3, section 2.1.2) picks among
    the experts of ``groups_per_token`` groups only: the mean over how many of the part's groups
    those are, hypergeometric too.
    """
    size = moe.experts / parts
    touched = -(-moe.groups // parts)
    pool = moe.groups_per_token * moe.experts / moe.groups
    missed = 0.0
    for picked in range(min(touched, moe.groups_per_token) + 1):
        others = moe.groups_per_token - picked
        if others > moe.groups - touched:
            continue
        ways = math.comb(touched, picked) * math.comb(moe.groups - touched, others)
        share = ways / math.comb(moe.groups, moe.groups_per_token)
        missed += share * _missed(pool, picked * size / touched, moe.experts_per_token)
    return parts * (1.0 - missed)


def _missed(pool: float, part: float, picks: int) -> float:
    """The probability that ``picks`` of ``pool`` experts are none of a ``part`` of them."""
    probability = 1.0
    for pick in range(picks):
        probability *= max(0.0, pool - part - pick) / max(1.0, pool - pick)
    return probability
