"""Seconds of collective operations: alpha-beta models inside and between nodes.

Notation: a group of ``size`` ranks, ``per_node`` of them in each node (or NVLink domain) it
touches. A collective over a buffer of S bytes moves ``factor(size) x S`` bytes through every rank,
at a bandwidth set by the slowest link of the ring, and pays a latency per step:

    seconds = base + steps x hop + factor x S / bandwidth

with factor 2 (size - 1) / size for an all-reduce and (size - 1) / size for an all-gather, a
reduce-scatter and an all-to-all (nccl-tests, doc/PERFORMANCE.md). The step counts of ring and tree
and their per-hop latencies follow NCCL's own tuner (src/graph/tuning.cc): a ring takes size - 1
steps per pass, of which nodes - 1 cross the network; a tree takes per_node - 1 steps inside the
node and log2(nodes) between nodes, at a somewhat lower bandwidth. NCCL takes the faster.

Above nodes are switches (leaf, spine, ...) whose uplinks may carry less than what is below them
sends. A ring visits the ranks below a switch one after another and leaves it once, so r ranks of a
group below a switch need one ring's bandwidth of uplink. All devices below it are in groups like
this one, which share the uplinks evenly: each group has r devices' shares of them. So a wide group
pays little for oversubscribed uplinks and one with a rank below each switch all of it. Groups that
lie across a border between switches although they would fit below one are few; they have the
uplinks for themselves and are counted as below one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """The ranks of one collective and how they lie on the nodes.

    ``shares``: for each level of switches above nodes, from the leafs up, how many devices' shares
    of a switch's uplinks the group has: as many as it has ranks there; infinite where it lies below
    one switch. Empty where all uplinks carry whatever is sent.
    """

    size: int
    per_node: int
    shares: tuple[float, ...] = ()

    @property
    def nodes(self) -> int:
        """Nodes (NVLink domains) that the group touches."""
        return math.ceil(self.size / self.per_node)

    @staticmethod
    def placed(size: int, stride: int, node: int, switches: tuple[int, ...] = ()) -> Group:
        """The group of ``size`` ranks, every ``stride``-th, on nodes of ``node`` consecutive ranks.

        ``switches``: consecutive ranks below one switch of each level. Megatron-LM's default rank
        order is tp-cp-ep-dp-pp, so the stride of a dimension is the product of the sizes before it
        (megatron/core/parallel_state.py).
        """
        return Group(
            size,
            max(1, min(size, node // stride)),
            shares_of([max(1, below // stride) for below in switches], size),
        )


def shares_of(below: Iterable[int], size: int) -> tuple[float, ...]:
    """``Group.shares`` of a group of ``size`` ranks, of which so many are below one switch."""
    return tuple(float(ranks) if ranks < size else math.inf for ranks in below)


@dataclass(frozen=True)
class Links:
    """What one device's links sustain, in bytes per second and one direction.

    ``intra_bandwidth``: a ring inside the node. ``switch_bandwidth``: an all-reduce that the
    switch reduces (NVLS); equal to ``intra_bandwidth`` where there is none.
    ``exchange_bandwidth``: an all-to-all inside the node, whose many small parts fill a link less.
    ``inter_bandwidth``: one device's share of its node's network cards.
    ``mesh``: ranks of a node are wired pairwise, so a group of r of the ``node`` devices reaches
    only (r - 1) / (node - 1) of the bandwidth (MI300X, Ascend 910B).
    ``uplinks``: one device's share of a switch's links upwards, for each level of switches above
    nodes from the leafs up; as many as ``Group.shares``.
    ``card_sharing``: share of its cards' bandwidth that a group with some but not all ranks of a
    node gets, where nodes have fewer cards than devices: groups do not know which card the others
    chose. 1 where every device has its own card.
    Latencies in seconds: ``base`` per call, ``intra_hop`` and ``inter_hop`` per step.
    """

    node: int
    intra_bandwidth: float
    switch_bandwidth: float
    exchange_bandwidth: float
    inter_bandwidth: float
    point_to_point_bandwidth: float
    base: float
    intra_hop: float
    inter_hop: float
    tree_bandwidth: float
    mesh: bool = False
    card_sharing: float = 1.0
    uplinks: tuple[float, ...] = ()

    def ring_bandwidth(self, group: Group) -> float:
        """Bytes per second through each rank of a ring over ``group``.

        Between nodes the ring enters and leaves each node through the cards of all its ranks
        there; other groups of the same layout use the cards of the other ranks.
        """
        intra = self.intra_bandwidth * self._share(group)
        if group.nodes == 1:
            return intra
        inter = group.per_node * self.inter_bandwidth
        if 1 < group.per_node < self.node:
            inter *= self.card_sharing
        inter = min(inter, self.uplink_bandwidth(group.shares))
        return min(intra, inter) if group.per_node > 1 else inter

    def uplink_bandwidth(self, shares: tuple[float, ...]) -> float:
        """What the uplinks of every level leave to one who has these shares; infinite if all."""
        levels = zip(shares, self.uplinks, strict=True) if shares else ()
        return min((share * uplink for share, uplink in levels), default=math.inf)

    def _share(self, group: Group) -> float:
        if not self.mesh or group.per_node == 1:
            return 1.0
        return (group.per_node - 1) / max(1, self.node - 1)


def all_reduce(size_bytes: float, group: Group, links: Links) -> float:
    """Seconds to sum a buffer of ``size_bytes`` over ``group``: the best of ring, switch and tree.

    Source: nccl-tests' bus-bandwidth factors; NCCL src/graph/tuning.cc for steps and latencies.
    """
    if group.size == 1 or size_bytes == 0:
        return 0.0
    volume = 2 * (group.size - 1) / group.size * size_bytes
    bandwidth = links.ring_bandwidth(group)
    seconds = links.base + 2 * _ring_steps(group, links) + volume / bandwidth
    if group.nodes > 1:
        tree = links.base + 2 * _tree_steps(group, links)
        seconds = min(seconds, tree + volume / (bandwidth * links.tree_bandwidth))
    elif links.switch_bandwidth > links.intra_bandwidth and group.size > _SWITCH_MIN_RANKS:
        switch = links.base + 2 * _ring_steps(group, links)
        seconds = min(seconds, switch + volume / links.switch_bandwidth)
    return seconds


_SWITCH_MIN_RANKS = 4
"""NVLS pays above this many ranks: measured on 4 to 8 H200 (stas00/ml-engineering, network)."""


def all_gather(size_bytes: float, group: Group, links: Links) -> float:
    """Seconds until every rank holds all ``size_bytes``, of which each brought an equal part.

    Source: nccl-tests' factor (size - 1) / size; ring steps as in NCCL src/graph/tuning.cc.
    """
    if group.size == 1 or size_bytes == 0:
        return 0.0
    volume = (group.size - 1) / group.size * size_bytes
    return links.base + _ring_steps(group, links) + volume / links.ring_bandwidth(group)


def reduce_scatter(size_bytes: float, group: Group, links: Links) -> float:
    """Seconds to sum ``size_bytes`` and leave each rank its part; a ring, like the all-gather."""
    return all_gather(size_bytes, group, links)


def all_to_all(size_bytes: float, group: Group, links: Links) -> float:
    """Seconds for each rank to send ``size_bytes`` in equal parts to all ranks of ``group``.

    The part for ranks of the same node goes over the node's links, the rest over the rank's own
    card, both at once; the later one counts. Source: the (size - 1) / size factor of nccl-tests.
    """
    if group.size == 1 or size_bytes == 0:
        return 0.0
    inside = (group.per_node - 1) / group.size * size_bytes
    outside = (group.size - group.per_node) / group.size * size_bytes
    intra = inside / (links.exchange_bandwidth * links._share(group)) if inside else 0.0
    inter = outside / links.inter_bandwidth
    above = _above(size_bytes, group.size, group.shares, links)
    hop = links.inter_hop if group.nodes > 1 else links.intra_hop
    return links.base + hop + max(intra, inter, above)


def forwarded_all_to_all(
    row_bytes: float, ranks: float, nodes: float, group: Group, links: Links
) -> float:
    """Seconds for each rank to send its rows to some ranks of ``group``, once to each node.

    Args:
        row_bytes: The rows of one rank, each counted once.
        ranks: Ranks of the group, the own one among them, that want a row, on average.
        nodes: Nodes of the group, the own one among them, that want a row, on average.
        group: The ranks.
        links: What joins them.

    A row crosses to a node through the card of the rank with the sender's number there, which hands
    it on; what arrives is handed on at once, so that the slower of both paths counts
    (deepseek-ai/DeepEP, csrc/kernels/internode.cu). The rank that hands on needs no link to itself.
    """
    if group.size == 1 or row_bytes == 0:
        return 0.0
    inside = row_bytes * ranks * (group.per_node - 1) / group.per_node
    outside = row_bytes * nodes * (group.nodes - 1) / group.nodes
    intra = inside / (links.exchange_bandwidth * links._share(group)) if inside else 0.0
    inter = outside / links.inter_bandwidth
    below = tuple(share / group.per_node for share in group.shares)
    above = _above(row_bytes * nodes, group.nodes, below, links)
    hops = links.intra_hop * (group.per_node > 1) + links.inter_hop * (group.nodes > 1)
    return links.base + hops + max(intra, inter, above)


def _above(size_bytes: float, parts: int, shares: tuple[float, ...], links: Links) -> float:
    """Seconds on the slowest uplinks of what goes in equal parts to ranks or nodes everywhere.

    ``shares``: of the parts, how many are below the sender's own switch of each level.
    """
    seconds = 0.0
    for below, uplink in zip(shares, links.uplinks, strict=True) if shares else ():
        seconds = max(seconds, (parts - min(below, parts)) / parts * size_bytes / uplink)
    return seconds


def send(
    size_bytes: float, crosses_nodes: bool, links: Links, shares: tuple[float, ...] = ()
) -> float:
    """Seconds to pass ``size_bytes`` from one device to one other.

    ``shares``: of uplinks, what one who sends to another switch has, as ``Group.shares``.
    """
    if crosses_nodes:
        bandwidth = min(links.inter_bandwidth, links.uplink_bandwidth(shares))
        return links.base + links.inter_hop + size_bytes / bandwidth
    return links.base + links.intra_hop + size_bytes / links.point_to_point_bandwidth


def _ring_steps(group: Group, links: Links) -> float:
    """Latency of one pass around the ring: size - 1 steps, nodes - 1 of them between nodes."""
    between = group.nodes - 1
    return (group.size - 1 - between) * links.intra_hop + between * links.inter_hop


def _tree_steps(group: Group, links: Links) -> float:
    """Latency of one pass up a tree: along each node, then log2(nodes) levels between nodes."""
    return (group.per_node - 1) * links.intra_hop + math.log2(group.nodes) * links.inter_hop
