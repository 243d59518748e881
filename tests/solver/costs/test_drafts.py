"""Drafts of blocks: made once for all numbers of replicas and stages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.cluster.cluster import Cluster
from solver.cluster.device import device
from solver.costs.blocks import Builder
from solver.costs.calibration import calibration, software_of
from solver.costs.model import machine_of, pipeline_costs
from solver.costs.sharding import sharding
from solver.layouts.layout import Layout
from solver.request import Training
from solver.workload.catalogue import architecture

TRAINING = Training(sequence_length=4096, global_batch_size=256)
UNIT = device("H100-SXM5-80GB")
CLUSTER = Cluster(UNIT, 16, 8, UNIT.memory_bytes, UNIT.inter_node_bytes_per_second, 8)
DENSE = Layout(2, 2, 1, 1, 32, 1, 1, True, 1, "1f1b")
EXPERTS = replace(DENSE, expert_parallel=4, expert_tensor_parallel=1)


@pytest.mark.parametrize(("name", "layout"), [("llama-3.1-70b", DENSE), ("mixtral-8x22b", EXPERTS)])
@pytest.mark.parametrize("zero_stage", [0, 1, 3])
@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"])
def test_a_draft_does_not_depend_on_replicas(
    name: str, layout: Layout, zero_stage: int, order: str
) -> None:
    asked = architecture(name)
    one = replace(layout, zero_stage=zero_stage, rank_order=order, sharding_group=8)
    machine = machine_of(
        CLUSTER, TRAINING, calibration(CLUSTER.device.name, software_of(TRAINING, one))
    )
    shard = sharding(TRAINING, one, CLUSTER.domain_size)
    layer, _ = asked.layers[0]
    made = [
        (builder.embedding(), builder.layer("layer", layer), builder.head())
        for builder in (
            Builder(asked, TRAINING, shard, machine, True),
            Builder(asked, TRAINING, shard.of_passes, machine, True),
        )
    ]
    assert made[0] == made[1]


def test_variants_share_the_ops_of_their_passes() -> None:
    asked = architecture("llama-3.1-70b")
    first, other = (
        pipeline_costs(asked, CLUSTER, TRAINING, replace(DENSE, sharding_group=group))
        for group in (0, 4)
    )
    for block, same in zip(first.blocks, other.blocks, strict=True):
        assert all(a is b for a, b in zip(block.ops, same.ops, strict=True))
        assert block.gather_seconds > same.gather_seconds
        assert block.states.total < same.states.total
