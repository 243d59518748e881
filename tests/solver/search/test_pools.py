"""Pipelines over pools of devices, against solving every assignment of stages to pools."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

from solver.errors import BadRequest, IllegalLayout
from solver.layouts.pooled import PooledFamily
from solver.planner import evaluate, plan
from solver.question import question
from solver.request import PlanRequest
from solver.search.family_bounds import FamilyBounds
from solver.search.members import Members
from tests.solver.search.test_spaces import DENSE, searched, solved

POOLS = [
    {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 2},
    {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 4},
]

SWITCHED: list[dict[str, Any]] = [
    {"nodes": 2, "devices_per_node": 1, "switches": [{"nodes": 2, "oversubscription": 16}]},
    {
        "device": "A100-PCIe-80GB",
        "nodes": 4,
        "devices_per_node": 1,
        "switches": [
            {"nodes": 2, "oversubscription": 8},
            {"nodes": 4, "oversubscription": 4},
        ],
    },
]


def pooled(
    layout: dict[str, Any],
    memory: float | None = None,
    third: bool = False,
    switched: bool = False,
) -> PlanRequest:
    """Four layers on two or three H100 and A100 pools with as much memory as said.

    ``switched``: nodes of one device, below leafs and a spine with few links upwards.
    """
    pools = [pool | ({"memory_bytes": memory} if memory else {}) for pool in POOLS]
    if switched:
        pools = [pool | nodes for pool, nodes in zip(pools, SWITCHED, strict=True)]
    if third:
        pools.append({"device": "V100-SXM2-32GB", "nodes": 1, "devices_per_node": 2})
    return PlanRequest.model_validate(
        {
            "model": {"huggingface": DENSE},
            "cluster": {"pools": pools},
            "training": {"sequence_length": 2048, "global_batch_size": 8, "precision": "fp16"},
            "layout": layout,
        }
    )


def small(seed: int) -> PlanRequest:
    chance = random.Random(seed)
    layout = {
        "tensor_parallel": 1,
        "context_parallel": 1,
        "micro_batch_size": chance.choice([1, 2]),
        "zero_stage": 1,
        "sharding_group": 1,
        "schedule": chance.choice(["1f1b", "gpipe"]),
    }
    memory = chance.choice([None, 4.2e9, 4.6e9, 5.5e9])
    if seed == 0:
        return pooled(layout | {"pipeline_parallel": [3, 4]}, memory, third=True)
    return pooled(layout, memory, switched=seed >= PLAIN)


PLAIN = 8
"""Seeds from here on have switches."""


@pytest.mark.parametrize("seed", range(12))
def test_the_search_over_pools_finds_what_solving_everything_finds(seed: int) -> None:
    asked = question(small(seed), to_plan=True)
    best, assigned = math.inf, set()
    for family in asked.families:
        assert isinstance(family, PooledFamily)
        assert asked.rough is not None
        totals = asked.rough.of(family)
        assert totals is not None
        bounds = FamilyBounds(Members.of(family), totals, inputs_kept=True)
        for position in range(len(family)):
            for layout in family.variants(position):
                time, _ = solved(asked, layout)
                best = min(best, time)
                assigned.add((layout.stage_pools, layout.data_parallel))
                assert bounds.bubble[position] <= time * (1 + 1e-9)
                assert bounds.fits[position] or math.isinf(time)
    outcome = searched(asked)
    assert any(len(pools) > 1 for pools, _ in assigned)
    if math.isinf(best):
        assert outcome.found is None
        return
    assert outcome.found is not None
    assert outcome.found.partition.makespan == pytest.approx(best, rel=1e-9)
    assert outcome.lower_bound <= best * (1 + 1e-9)
    assert outcome.unfinished == 0


def test_every_assignment_of_stages_to_two_pools_is_considered_once() -> None:
    layout = {"tensor_parallel": 1, "context_parallel": 1, "micro_batch_size": 1, "zero_stage": 1}
    asked = question(pooled(layout | {"sharding_group": 1}), to_plan=True)
    found = Counter(
        family.member(position).stage_pools
        for family in asked.families
        for position in range(len(family))
    )
    both = [(first, 4 - first) for first in (1, 2)] + [(1, 2), (1, 1), (2, 1)]
    expected = {((0, stages),) for stages in (1, 2)} | {((1, stages),) for stages in (1, 2, 3, 4)}
    for h100, a100 in both:
        expected |= {((0, h100), (1, a100)), ((1, a100), (0, h100))}
    assert found == dict.fromkeys(expected, 1)


def sends(switches: list[list[dict[str, Any]] | None], stage_pools: list[list[int]]) -> float:
    """Seconds of a send from pool to pool, whose switches are said."""
    request = pooled({}, switched=True)
    assert request.cluster.pools is not None
    pools = [
        pool.model_dump(exclude_unset=True) | {"switches": levels}
        for pool, levels in zip(request.cluster.pools, switches, strict=True)
    ]
    layout = {"tensor_parallel": 1, "data_parallel": 1, "micro_batch_size": 8}
    layout |= {"stage_pools": stage_pools, "pipeline_parallel": sum(n for _, n in stage_pools)}
    document = request.model_dump(mode="json", exclude_unset=True)
    document |= {"cluster": {"pools": pools}, "layout": layout}
    return evaluate(PlanRequest.model_validate(document)).pipeline_send_seconds


def test_what_goes_to_another_pool_passes_the_switches_of_both() -> None:
    above = [{"nodes": 4, "oversubscription": 16}]
    free = sends([None, None], [[0, 1], [1, 1]])
    # A single stage below the switch has one device's share of its links upwards, a 16th.
    assert sends([None, above], [[0, 1], [1, 1]]) == pytest.approx(16 * free, rel=0.05)
    assert sends([above, above], [[0, 1], [1, 1]]) == sends([None, above], [[0, 1], [1, 1]])
    # Of three only the last sends out, so it has the shares of all.
    assert sends([None, above], [[0, 1], [1, 3]]) == pytest.approx(16 / 3 * free, rel=0.05)
    # What stays in the pool does not pass a switch that is above all of it.
    assert sends([None, above], [[1, 3]]) == sends([None, None], [[1, 3]])


def test_a_pool_says_which_of_its_switches_is_wrong() -> None:
    levels = [{"nodes": 4, "oversubscription": 2}, {"nodes": 2, "oversubscription": 2}]
    with pytest.raises(BadRequest) as caught:
        sends([None, levels], [[0, 1], [1, 1]])
    assert caught.value.field == "cluster.pools[1].switches[1].nodes"
    assert caught.value.hint


def test_the_faster_pool_holds_more_layers_and_the_answer_names_it() -> None:
    found = plan(
        pooled({"data_parallel": 2, "tensor_parallel": 1, "stage_pools": [[0, 1], [1, 1]]})
    )
    assert [stage.device for stage in found.stages] == ["H100-SXM5-80GB", "A100-SXM4-80GB"]
    first, second = (dict(stage.blocks).get("layer", 0) for stage in found.stages)
    assert first > second
    assert found.layout is not None
    assert found.layout.stage_pools == [(0, 1), (1, 1)]


def test_an_evaluation_says_which_stages_stand_where() -> None:
    layout = {"tensor_parallel": 1, "pipeline_parallel": 2, "data_parallel": 2}
    layout |= {"micro_batch_size": 1}
    with pytest.raises(BadRequest, match="stage_pools"):
        evaluate(pooled(layout))
    with pytest.raises(IllegalLayout, match="more than the 2"):
        evaluate(pooled(layout | {"stage_pools": [[0, 2]]}))
    with pytest.raises(IllegalLayout, match="no pool 2"):
        evaluate(pooled(layout | {"stage_pools": [[2, 1], [1, 1]]}))
    with pytest.raises(IllegalLayout, match="3 stages"):
        evaluate(pooled(layout | {"stage_pools": [[0, 1], [1, 2]]}))
    found = evaluate(pooled(layout | {"stage_pools": [[0, 1], [1, 1]]}))
    assert [stage.device for stage in found.stages] == ["H100-SXM5-80GB", "A100-SXM4-80GB"]
    alone = evaluate(pooled(layout | {"stage_pools": [[1, 2]]}))
    assert found.iteration_seconds < alone.iteration_seconds


def test_pools_stand_alone_and_say_what_is_wrong_with_them() -> None:
    document = pooled({}).model_dump(mode="json", exclude_unset=True)
    with pytest.raises(ValueError, match="pools stand alone"):
        PlanRequest.model_validate(
            document | {"cluster": {"pools": POOLS, "device": "H100-SXM5-80GB"}}
        )
    wrong = [POOLS[0], POOLS[1] | {"device": "A100"}]
    with pytest.raises(BadRequest) as caught:
        plan(PlanRequest.model_validate(document | {"cluster": {"pools": wrong}}))
    assert caught.value.field == "cluster.pools[1].device"
