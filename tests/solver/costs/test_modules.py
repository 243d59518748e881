"""The modules that Megatron-LM's selective recompute can name in a layer."""

from __future__ import annotations

import pytest

from solver.cluster.cluster import Cluster
from solver.cluster.device import device
from solver.costs.model import pipeline_costs
from solver.layouts.layout import Layout
from solver.request import Training
from solver.workload.catalogue import architecture

LAYOUT = Layout(1, 1, 1, 1, 1, 1, 1, False, 1, "1f1b")


def modules(model: str) -> set[str]:
    unit = device("H100-SXM5-80GB")
    cluster = Cluster(unit, 1, 1, unit.memory_bytes, unit.inter_node_bytes_per_second, 1)
    training = Training(sequence_length=4096, global_batch_size=1)
    costs = pipeline_costs(architecture(model), cluster, training, LAYOUT)
    return {module.name for block in costs.blocks for module in block.modules}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("llama-3.1-8b", {"core_attn", "mlp", "layernorm"}),
        ("mixtral-8x7b", {"core_attn", "layernorm", "moe", "moe_act"}),
        (
            "deepseek-v3",
            {
                "core_attn",
                "mlp",
                "layernorm",
                "moe",
                "moe_act",
                "mla_up_proj",
                "shared_experts",
            },
        ),
    ],
)
def test_a_layer_has_the_modules_that_it_is_made_of(model: str, expected: set[str]) -> None:
    assert modules(model) == expected
