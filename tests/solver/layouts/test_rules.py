"""Each rule refuses what it is for, at the field to change, and names the nearest legal values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.cluster.cluster import cluster_from_request
from solver.errors import BadRequest, IllegalLayout
from solver.layouts import Layout, check, layouts
from solver.layouts.rules import RULES
from solver.request import Cluster, LayoutRequest, Training
from solver.workload.catalogue import architecture

A100X64 = cluster_from_request(Cluster(device="A100-SXM4-80GB", nodes=8, devices_per_node=8))
LEGAL: dict[str, Any] = {
    "tensor_parallel": 4,
    "pipeline_parallel": 4,
    "context_parallel": 1,
    "expert_parallel": 1,
    "data_parallel": 4,
    "virtual_stages": 1,
    "micro_batch_size": 1,
    "sequence_parallel": True,
    "zero_stage": 1,
    "schedule": "1f1b",
}


def refused(
    model: str = "llama-3.1-8b", batch: int = 128, length: int = 4096, **changes: Any
) -> IllegalLayout:
    """How ``LEGAL`` with ``changes`` is refused; 32 layers, 32 heads, 8 key/value heads."""
    training = Training(sequence_length=length, global_batch_size=batch)
    with pytest.raises(IllegalLayout) as caught:
        check(Layout(**{**LEGAL, **changes}), architecture(model), A100X64, training)
    return caught.value


def test_the_layout_that_the_others_vary_is_legal() -> None:
    training = Training(sequence_length=4096, global_batch_size=128)
    check(Layout(**LEGAL), architecture("llama-3.1-8b"), A100X64, training)


@pytest.mark.parametrize(
    ("changes", "field", "hint"),
    [
        ({"data_parallel": 8}, "data_parallel", "Nearest legal value: 4."),
        ({"tensor_parallel": 3}, "tensor_parallel", "Nearest legal values: 2 or 4."),
        ({"tensor_parallel": 64, "pipeline_parallel": 1, "data_parallel": 1},
         "tensor_parallel", "Nearest legal value: 32."),
        ({"pipeline_parallel": 2, "virtual_stages": 17}, "virtual_stages",
         "Nearest legal value: 16."),
        ({"virtual_stages": 9}, "virtual_stages", "Nearest legal value: 8."),
        ({"pipeline_parallel": 1, "virtual_stages": 2}, "virtual_stages",
         "Nearest legal value: 1."),
        ({"virtual_stages": 2, "schedule": "gpipe"}, "schedule",
         "Nearest legal values: 1f1b or zb-v."),
        ({"virtual_stages": 3, "schedule": "zb-v"}, "virtual_stages", "Nearest legal value: 2."),
        ({"virtual_stages": 4, "schedule": "zb-h1"}, "schedule", "Nearest legal value: 1f1b."),
        ({"pipeline_parallel": 3, "schedule": "chimera"}, "pipeline_parallel",
         "Nearest legal values: 2 or 4."),
        ({"micro_batch_size": 32, "schedule": "chimera"}, "micro_batch_size",
         "Nearest legal value: 16."),
        ({"zero_stage": 3}, "zero_stage", "Nearest legal value: 1."),
        ({"tensor_parallel": 1}, "sequence_parallel", "Nearest legal value: false."),
        ({"length": 4098}, "sequence_parallel", "Nearest legal value: false."),
        ({"context_parallel": 4, "pipeline_parallel": 1, "length": 4100,
          "sequence_parallel": False}, "context_parallel", "Nearest legal value: 2."),
        ({"context_parallel": 4, "pipeline_parallel": 1, "context_method": "all-to-all"},
         "context_method", "Nearest legal values: ring or all-gather."),
        ({"model": "mistral-7b", "context_parallel": 2, "pipeline_parallel": 2, "length": 8192},
         "context_method", "Nearest legal values: all-gather or all-to-all."),
        ({"expert_parallel": 2}, "expert_parallel", "Nearest legal value: 1."),
        ({"data_parallel": 3}, "data_parallel", "Nearest legal values: 2 or 4."),
        ({"micro_batch_size": 3}, "micro_batch_size", "Nearest legal values: 2 or 4."),
        ({"virtual_stages": 2, "micro_batch_size": 16}, "micro_batch_size",
         "Nearest legal value: 8."),
        ({"model": "mixtral-8x7b", "expert_parallel": 3}, "expert_parallel",
         "Nearest legal values: 2 or 4."),
        ({"model": "mixtral-8x7b", "tensor_parallel": 1, "sequence_parallel": False,
          "expert_parallel": 8}, "expert_parallel", "Nearest legal value: 4."),
    ],
)  # fmt: skip
def test_a_broken_rule_names_the_field_and_the_nearest_legal_values(
    changes: dict[str, Any], field: str, hint: str
) -> None:
    error = refused(**changes)
    assert error.field == f"layout.{field}"
    assert error.hint == hint


def test_more_stages_than_layers_is_said_in_these_words() -> None:
    error = refused(
        pipeline_parallel=64, tensor_parallel=1, data_parallel=1, sequence_parallel=False
    )
    assert error.field == "layout.pipeline_parallel"
    assert error.detail == "The model has 32 layers, fewer than the 64 stages."
    assert error.hint == "Nearest legal value: 32."


def test_heads_that_tensor_parallel_does_not_divide_are_counted_in_the_detail() -> None:
    assert "32 attention heads" in refused(tensor_parallel=3).detail


def test_key_value_heads_are_divided_or_replicated_evenly() -> None:
    training = Training(sequence_length=4096, global_batch_size=128)
    replicated = Layout(**{**LEGAL, "tensor_parallel": 16, "pipeline_parallel": 1})
    check(replicated, architecture("llama-3.1-8b"), A100X64, training)
    # Qwen 2.5 7B: 28 heads of queries, 4 of keys and values, tensor parallel 14.
    error = refused("qwen-2.5-7b", tensor_parallel=14, pipeline_parallel=1, sequence_parallel=False)
    assert "4 key/value heads" in error.detail


def test_a_training_run_without_length_or_batch_is_refused_by_name() -> None:
    model = architecture("llama-3.1-8b")
    with pytest.raises(BadRequest) as error:
        layouts(LayoutRequest(), model, A100X64, Training(global_batch_size=8))
    assert error.value.field == "training.sequence_length"
    with pytest.raises(BadRequest) as error:
        check(Layout(**LEGAL), model, A100X64, Training(sequence_length=8))
    assert error.value.field == "training.global_batch_size"


def test_every_rule_has_a_name_of_its_own_and_a_reason() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.reason.endswith(".") for rule in RULES)


def test_exchange_beside_products_takes_several_chunks_in_a_pipeline() -> None:
    training = Training(sequence_length=4096, global_batch_size=128, overlap_expert_parallel=True)
    pipeline = Layout(**{**LEGAL, "expert_parallel": 8})
    model = architecture("mixtral-8x7b")
    with pytest.raises(IllegalLayout) as caught:
        check(pipeline, model, A100X64, training)
    assert caught.value.field == "layout.virtual_stages"
    check(replace(pipeline, virtual_stages=2), model, A100X64, training)
    check(replace(pipeline, expert_parallel=1), model, A100X64, training)
    check(pipeline, model, A100X64, Training(sequence_length=4096, global_batch_size=128))
