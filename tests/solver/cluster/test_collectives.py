"""Collectives: bus-bandwidth factors, placement, and the measured curves they must follow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cluster.collectives import (
    Group,
    Links,
    all_gather,
    all_reduce,
    all_to_all,
    reduce_scatter,
    send,
)

LINKS = Links(
    node=8,
    intra_bandwidth=365e9,
    switch_bandwidth=480e9,
    exchange_bandwidth=330e9,
    inter_bandwidth=45e9,
    point_to_point_bandwidth=360e9,
    base=2e-5,
    intra_hop=4e-6,
    inter_hop=1.2e-5,
    tree_bandwidth=0.85,
)
RING = replace(LINKS, switch_bandwidth=LINKS.intra_bandwidth)
LARGE = 16.0 * 2**30

groups = st.builds(
    Group.placed,
    size=st.sampled_from([1, 2, 4, 8, 16, 64]),
    stride=st.sampled_from([1, 2, 4, 8]),
    node=st.just(8),
)
sizes = st.floats(1.0, 1e11)


@pytest.mark.parametrize(
    ("size", "stride", "per_node", "nodes"),
    [(8, 1, 8, 1), (16, 1, 8, 2), (4, 2, 4, 1), (8, 2, 4, 2), (4, 8, 1, 4), (6, 1, 6, 1)],
)
def test_groups_lie_on_nodes_as_their_stride_says(
    size: int, stride: int, per_node: int, nodes: int
) -> None:
    group = Group.placed(size, stride, 8)
    assert (group.per_node, group.nodes) == (per_node, nodes)


def test_a_group_of_one_communicates_nothing() -> None:
    alone = Group(1, 1)
    for collective in (all_reduce, all_gather, reduce_scatter, all_to_all):
        assert collective(1e9, alone, LINKS) == 0.0


def test_a_large_all_reduce_reaches_the_bus_bandwidth_of_ring_and_switch() -> None:
    node = Group(8, 8)
    for links, bandwidth in ((RING, 365e9), (LINKS, 480e9)):
        bus = 2 * 7 / 8 * LARGE / all_reduce(LARGE, node, links)
        assert bus == pytest.approx(bandwidth, rel=0.01)


def test_four_ranks_do_not_use_the_switch() -> None:
    four = Group(4, 4)
    assert all_reduce(LARGE, four, LINKS) == all_reduce(LARGE, four, RING)


@pytest.mark.parametrize(
    ("mebibytes", "measured"), [(2, 64.53e9), (32, 275.84e9), (128, 401.93e9), (2048, 469.17e9)]
)
def test_eight_h200_follow_their_measured_curve(mebibytes: int, measured: float) -> None:
    """stas00/ml-engineering@744d01e, network: all-reduce over 8 H200 by size."""
    size = mebibytes * 2.0**20
    bus = 2 * 7 / 8 * size / all_reduce(size, Group(8, 8), LINKS)
    assert bus == pytest.approx(measured, rel=0.35)


def test_many_nodes_prefer_the_tree_for_small_messages() -> None:
    wide = Group(1024, 8)
    ring_latency = 2 * (896 * RING.intra_hop + 127 * RING.inter_hop)
    assert all_reduce(1e6, wide, RING) < ring_latency
    assert all_reduce(1e6, wide, RING) > 2 * math.log2(128) * RING.inter_hop


def test_a_mesh_gives_small_groups_their_share_of_the_links() -> None:
    mesh = replace(RING, mesh=True)
    whole = all_gather(LARGE, Group(8, 8), mesh)
    pair = all_gather(LARGE, Group(2, 2), mesh)
    assert whole == all_gather(LARGE, Group(8, 8), RING)
    assert pair == pytest.approx(7 * all_gather(LARGE, Group(2, 2), RING), rel=0.01)


def test_shared_cards_slow_groups_that_fill_part_of_a_node() -> None:
    shared = replace(RING, card_sharing=0.4)
    part, whole, single = Group(16, 4), Group(16, 8), Group(16, 1)
    assert all_gather(LARGE, part, shared) == pytest.approx(
        all_gather(LARGE, part, RING) / 0.4, rel=0.01
    )
    assert all_gather(LARGE, whole, shared) == all_gather(LARGE, whole, RING)
    assert all_gather(LARGE, single, shared) == all_gather(LARGE, single, RING)


def test_sends_between_nodes_take_the_card() -> None:
    assert send(1e9, True, RING) > send(1e9, False, RING)


@given(group=groups, size=sizes, more=st.floats(1.0, 10.0))
def test_more_bytes_never_take_less_time(group: Group, size: float, more: float) -> None:
    for collective in (all_reduce, all_gather, reduce_scatter, all_to_all):
        assert collective(size * more, group, LINKS) >= collective(size, group, LINKS)


@given(group=groups, size=sizes, faster=st.floats(1.0, 10.0))
def test_faster_cards_never_slow_a_collective(group: Group, size: float, faster: float) -> None:
    better = replace(LINKS, inter_bandwidth=LINKS.inter_bandwidth * faster)
    for collective in (all_reduce, all_gather, reduce_scatter, all_to_all):
        assert collective(size, group, better) <= collective(size, group, LINKS)


@given(group=groups, size=st.floats(1e6, 1e11))
def test_an_all_reduce_is_at_most_a_scatter_and_a_gather(group: Group, size: float) -> None:
    apart = reduce_scatter(size, group, RING) + all_gather(size, group, RING)
    assert all_reduce(size, group, RING) <= apart * (1 + 1e-12)
