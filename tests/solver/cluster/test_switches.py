"""Switches with oversubscribed uplinks: what is left to each group, and who is slowed down."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.cluster.cluster import SwitchLevel, cluster_from_request
from solver.cluster.collectives import (
    Group,
    all_gather,
    all_reduce,
    all_to_all,
    forwarded_all_to_all,
    send,
)
from solver.cluster.imported import described
from solver.errors import BadRequest
from solver.request import Cluster
from tests.solver.cluster.test_collectives import LARGE, RING

NODE = 8
LEAF, SPINE = 32, 128
H100 = {"device": "H100-SXM5-80GB", "nodes": 32, "devices_per_node": NODE}

powers = st.sampled_from([1, 2, 4, 8, 16, 32, 64])
rates = st.lists(st.floats(1.0, 8.0), min_size=2, max_size=2)


def links(leaf: float, spine: float) -> Any:
    """Links whose leafs and spines are so much oversubscribed."""
    inter = RING.inter_bandwidth
    return replace(RING, uplinks=(inter / leaf, inter / leaf / spine))


def uplink_per_ring(size: int, stride: int, below: int, uplink: float) -> float:
    """What a ring gets of its busiest switch, by laying every ring of all ranks on the fabric."""
    ranks = range(size * stride * max(1, 4 * below // (size * stride)))
    leaving: Counter[int] = Counter()
    for first in ranks:
        start = first - first // stride % size * stride
        if first != start:
            continue
        ring = [start + place * stride for place in range(size)]
        for here, there in zip(ring, ring[1:] + ring[:1], strict=True):
            leaving[here // below] += here // below != there // below
    busiest = max(leaving.values(), default=0)
    return below * uplink / busiest if busiest else math.inf


@given(size=powers, stride=powers, below=st.sampled_from([LEAF, SPINE]))
def test_a_ring_has_what_counting_all_rings_through_a_switch_leaves_it(
    size: int, stride: int, below: int
) -> None:
    group = Group.placed(size, stride, NODE, (below,))
    here = replace(RING, uplinks=(1e9,))
    assert here.uplink_bandwidth(group.shares) == uplink_per_ring(size, stride, below, 1e9)


@given(size=powers, stride=powers, rate=rates, more=rates)
def test_scarcer_uplinks_are_never_faster(
    size: int, stride: int, rate: list[float], more: list[float]
) -> None:
    group = Group.placed(size, stride, NODE, (LEAF, SPINE))
    few, many = links(*(a * b for a, b in zip(rate, more, strict=True))), links(*rate)
    for collective in (all_reduce, all_gather, all_to_all):
        assert collective(LARGE, group, few) >= collective(LARGE, group, many) * (1 - 1e-12)
    there = send(LARGE, True, few, group.shares)
    assert there >= send(LARGE, True, many, group.shares) * (1 - 1e-12)


@given(size=powers, stride=powers)
def test_uplinks_that_carry_all_change_nothing(size: int, stride: int) -> None:
    group = Group.placed(size, stride, NODE, (LEAF, SPINE))
    bare = Group.placed(size, stride, NODE)
    for collective in (all_reduce, all_gather, all_to_all):
        there = collective(LARGE, group, links(1.0, 1.0))
        assert there == pytest.approx(collective(LARGE, bare, RING), rel=1e-12)
    rows = forwarded_all_to_all(LARGE, 4.0, 2.0, group, links(1.0, 1.0))
    assert rows == pytest.approx(forwarded_all_to_all(LARGE, 4.0, 2.0, bare, RING), rel=1e-12)


def test_a_wide_group_pays_less_for_uplinks_than_one_with_a_rank_below_each_leaf() -> None:
    scarce = links(4.0, 1.0)
    wide, thin = (Group.placed(64, stride, NODE, (LEAF, SPINE)) for stride in (1, LEAF))
    assert all_reduce(LARGE, wide, scarce) == all_reduce(LARGE, wide, RING_WITHOUT)
    slower = all_reduce(LARGE, thin, scarce) / all_reduce(LARGE, thin, RING_WITHOUT)
    assert slower == pytest.approx(4.0, rel=0.01)


RING_WITHOUT = links(1.0, 1.0)


def test_an_all_to_all_pays_for_what_goes_to_other_leafs_only() -> None:
    group = Group.placed(64, 1, NODE, (LEAF, SPINE))
    rate = RING.inter_bandwidth
    expected = max(56 / 64 * LARGE / rate, 32 / 64 * LARGE / (rate / 4.0))
    assert all_to_all(LARGE, group, links(4.0, 1.0)) == pytest.approx(expected, rel=1e-3)


def levels(*pairs: tuple[int, float]) -> list[dict[str, Any]]:
    return [{"nodes": nodes, "oversubscription": rate} for nodes, rate in pairs]


def test_shares_multiply_from_level_to_level() -> None:
    asked = Cluster.model_validate({**H100, "switches": levels((4, 2.0), (16, 3.0))})
    cluster = cluster_from_request(asked)
    assert cluster.switches == (SwitchLevel(32, 1 / 2), SwitchLevel(128, 1 / 6))


@pytest.mark.parametrize("pairs", [[(4, 1.0)], [(32, 8.0)], [(64, 8.0)]])
def test_levels_that_slow_nobody_down_are_as_if_they_were_not_stated(
    pairs: list[tuple[int, float]],
) -> None:
    asked = Cluster.model_validate({**H100, "switches": levels(*pairs)})
    assert cluster_from_request(asked) == cluster_from_request(Cluster.model_validate(H100))


@pytest.mark.parametrize(
    ("device", "pairs", "field"),
    [
        ("H100-SXM5-80GB", [(4, 2.0), (4, 2.0)], "cluster.switches[1].nodes"),
        ("GB200-NVL72", [(4, 2.0)], "cluster.switches[0].nodes"),
    ],
)
def test_levels_that_do_not_nest_are_refused(
    device: str, pairs: list[tuple[int, float]], field: str
) -> None:
    asked = Cluster.model_validate({**H100, "device": device, "switches": levels(*pairs)})
    with pytest.raises(BadRequest) as error:
        cluster_from_request(asked)
    assert error.value.field == field
    assert error.value.hint


def topology(oversubscription: float | None) -> dict[str, Any]:
    nodes = [
        {"name": f"n{i}", "path": [f"leaf{i // 4}"], "devices": 8, "device": "H100-SXM5-80GB"}
        for i in range(14)
    ]
    return {"nodes": nodes, "oversubscription": oversubscription}


def test_an_imported_topology_brings_its_leafs() -> None:
    asked, notes = described(Cluster(topology=topology(3.0)))
    assert asked.switches is not None
    assert [level.model_dump() for level in asked.switches] == levels((4, 3.0))
    assert any("Leafs of 4 nodes" in note for note in notes)
    stated = Cluster.model_validate({"topology": topology(3.0), "switches": levels((8, 2.0))})
    assert described(stated)[0].switches == stated.switches


def test_a_topology_without_a_rate_of_uplinks_has_no_levels() -> None:
    assert described(Cluster(topology=topology(None)))[0].switches is None
