"""Tokens on their way to experts: counts against brute force, and what limits and nodes save."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from statistics import mean

import pytest

from solver.cluster.collectives import Group, all_to_all
from solver.costs.dispatch import dispatch_seconds, reach
from solver.workload.architecture import MixtureOfExperts
from solver.workload.implementation import Dispatcher
from tests.solver.cluster.test_collectives import LINKS

FINE = MixtureOfExperts(256, 8, 2048, gated=True)
"""DeepSeek-V3 without its limit."""
LIMITED = replace(FINE, groups=8, groups_per_token=4)
ROW_BYTES = 4096 * 7168 * 2.0
EIGHT_NODES = Group(64, 8)


def counted(moe: MixtureOfExperts, parts: int) -> float:
    """Parts that a token's experts lie in, on average over every choice of groups and experts."""
    size, group_size = moe.experts // parts, moe.experts // moe.groups
    found = []
    for groups in combinations(range(moe.groups), moe.groups_per_token):
        pool = [e for e in range(moe.experts) if e // group_size in groups]
        picks = combinations(pool, moe.experts_per_token)
        found += [len({expert // size for expert in picked}) for picked in picks]
    return mean(found)


def nested(one: int, other: int) -> bool:
    """Whether parts of the one size consist of whole parts of the other, or the other way round."""
    return one % other == 0 or other % one == 0


CASES = [
    (groups, chosen, size, per_node)
    for groups, chosen in [(1, 1), (2, 1), (4, 2), (4, 3), (6, 2), (12, 4)]
    for size, per_node in [(12, 4), (12, 2), (6, 2), (4, 1), (3, 3)]
    if nested(groups, size) and nested(groups, size // per_node)
]


@pytest.mark.parametrize(("groups", "chosen", "size", "per_node"), CASES)
def test_reached_ranks_and_nodes_are_those_counted(
    groups: int, chosen: int, size: int, per_node: int
) -> None:
    moe = MixtureOfExperts(12, 2, 64, True, groups=groups, groups_per_token=chosen)
    found = reach(moe, Group(size, per_node))
    assert found.ranks == pytest.approx(counted(moe, size))
    assert found.nodes == pytest.approx(counted(moe, size // per_node))


def test_a_token_of_deepseek_v3_visits_four_nodes_at_most() -> None:
    assert 3.5 < reach(LIMITED, EIGHT_NODES).nodes < 4.0
    assert reach(FINE, EIGHT_NODES).nodes > 5.0
    # 3.2 experts on each of four nodes cost what eight experts do (arXiv:2412.19437, 3.2.2).
    more = replace(LIMITED, experts_per_token=13)
    assert reach(more, EIGHT_NODES).nodes < 4.0


def test_forwarding_sends_each_token_once_to_each_node() -> None:
    def seconds(moe: MixtureOfExperts, dispatcher: Dispatcher) -> float:
        return dispatch_seconds(moe, ROW_BYTES, EIGHT_NODES, LINKS, dispatcher)

    copies = seconds(FINE, Dispatcher.ALL_TO_ALL)
    once = seconds(FINE, Dispatcher.FORWARD)
    assert copies / once == pytest.approx(7.0 / (reach(FINE, EIGHT_NODES).nodes * 7 / 8), rel=0.01)
    assert seconds(LIMITED, Dispatcher.FORWARD) < once
    assert seconds(LIMITED, Dispatcher.ALL_TO_ALL) == copies


def test_forwarded_bandwidth_is_that_of_the_card() -> None:
    """DeepEP's README: 43 to 47 GB/s of a 50 GB/s card over 16 and 32 ranks, as it counts bytes."""
    for ranks in (16, 32):
        group = Group(ranks, 8)
        took = dispatch_seconds(LIMITED, ROW_BYTES, group, LINKS, Dispatcher.FORWARD)
        remote = reach(LIMITED, group).nodes * (group.nodes - 1) / group.nodes
        assert 0.9 * LINKS.inter_bandwidth < ROW_BYTES * remote / took <= LINKS.inter_bandwidth


def test_where_nothing_is_said_tokens_are_forwarded_between_nodes_only() -> None:
    for group, dispatcher in (
        (EIGHT_NODES, Dispatcher.FORWARD),
        (Group(8, 8), Dispatcher.ALL_TO_ALL),
    ):
        assert dispatch_seconds(FINE, ROW_BYTES, group, LINKS, Dispatcher.AUTO) == (
            dispatch_seconds(FINE, ROW_BYTES, group, LINKS, dispatcher)
        )


def test_one_expert_per_token_is_sent_alike_either_way() -> None:
    single = replace(FINE, experts_per_token=1)
    flat = Group(8, 1)
    forwarded = dispatch_seconds(single, ROW_BYTES, flat, LINKS, Dispatcher.FORWARD)
    assert forwarded == pytest.approx(all_to_all(ROW_BYTES, flat, LINKS))


def test_gathering_brings_every_token_everywhere() -> None:
    few = MixtureOfExperts(8, 2, 64, gated=True)
    gathered = dispatch_seconds(few, ROW_BYTES, Group(8, 8), LINKS, Dispatcher.ALL_GATHER)
    assert gathered > dispatch_seconds(few, ROW_BYTES, Group(8, 8), LINKS, Dispatcher.ALL_TO_ALL)
