"""Which parts of a real layer's backward take recompute."""

from __future__ import annotations

from typing import Any

import pytest

from solver.costs.pipeline import Block, Overlapping, PipelineCosts
from solver.planner import plan
from solver.question import question
from solver.recompute.windows import placeable, windows
from solver.request import PlanRequest

GPT = {
    "model_type": "gpt2",
    "n_layer": 8,
    "n_embd": 4096,
    "n_head": 32,
    "n_positions": 2048,
    "vocab_size": 50257,
}


def asked(sequence_parallel: bool, device: str = "A100-PCIe-80GB", **fields: Any) -> PlanRequest:
    return PlanRequest.model_validate(
        {
            "model": {"huggingface": GPT},
            "cluster": {"device": device, "nodes": 2, "devices_per_node": 8},
            "training": {"sequence_length": 2048, "global_batch_size": 32},
            "layout": {
                "tensor_parallel": 8,
                "pipeline_parallel": 2,
                "data_parallel": 1,
                "micro_batch_size": 4,
                "sequence_parallel": sequence_parallel,
            },
            **fields,
        }
    )


def costs_of(request: PlanRequest) -> PipelineCosts:
    found = question(request)
    return found.costs(found.layouts[0])


def layer(costs: PipelineCosts) -> Block:
    return next(block for block in costs.blocks if block.name == "layer")


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_window_is_no_longer_than_what_the_collective_adds(sequence_parallel: bool) -> None:
    block = layer(costs_of(asked(sequence_parallel)))
    found = windows(block, Overlapping())
    assert found
    for window in found:
        op = block.ops[window.position]
        assert 0 < window.seconds <= op.backward_seconds
    assert "stage_boundary" not in {window.op for window in found}


def test_what_hides_under_products_already_is_no_window() -> None:
    """On NVLink the reduction of an input's gradient is shorter than the weight's product."""
    slow = windows(layer(costs_of(asked(sequence_parallel=False))), Overlapping())
    nvlink = asked(sequence_parallel=False, device="A100-SXM4-80GB")
    fast = windows(layer(costs_of(nvlink)), Overlapping())
    assert sum(w.seconds for w in fast) < sum(w.seconds for w in slow)


def test_products_behind_a_gather_that_does_nothing_can_be_placed() -> None:
    """Without sequence parallelism forward gathers nothing, with it the gather is in the way."""
    assert "query_key" in placeable(layer(costs_of(asked(sequence_parallel=False))))
    assert "query_key" not in placeable(layer(costs_of(asked(sequence_parallel=True))))


def test_computing_beside_a_collective_slows_both() -> None:
    overlapping = costs_of(asked(sequence_parallel=True)).overlapping
    assert 1.1 <= overlapping.slowdown <= 1.3
    assert 0.1 <= overlapping.charge <= 0.4


def test_a_model_hides_recompute_where_memory_is_tight() -> None:
    tight = {"device": "A100-PCIe-80GB", "nodes": 2, "devices_per_node": 8, "memory_bytes": 1.3e10}
    off = plan(asked(sequence_parallel=False, cluster=tight))
    hidden = plan(asked(sequence_parallel=False, cluster=tight, recompute={"overlap": "all"}))
    assert off.iteration_seconds is not None
    assert hidden.iteration_seconds is not None
    assert hidden.iteration_seconds <= off.iteration_seconds
    assert any("no-overlap" in note for note in hidden.notes)
    assert not any("no-overlap" in note for note in off.notes)


@pytest.mark.parametrize("side_by_side", [False, True])
def test_exchanges_beside_another_micro_batch_are_no_windows(side_by_side: bool) -> None:
    flags: dict[str, Any] = {
        "--num-layers": 4,
        "--hidden-size": 1024,
        "--ffn-hidden-size": 2048,
        "--num-attention-heads": 16,
        "--seq-length": 1024,
        "--max-position-embeddings": 1024,
        "--vocab-size": 32000,
        "--num-experts": 8,
        "--moe-router-topk": 2,
        "--expert-model-parallel-size": 4,
        "--micro-batch-size": 1,
        "--global-batch-size": 8,
        "--bf16": True,
        "--overlap-moe-expert-parallel-comm": side_by_side,
    }
    request = {
        "model": {"megatron_args": flags},
        "cluster": {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 4},
    }
    costs = costs_of(PlanRequest.model_validate(request))
    blocks = [block for block in costs.blocks if any("dispatch" in op.name for op in block.ops)]
    assert blocks
    found = {window.op for block in blocks for window in windows(block, Overlapping())}
    assert any("dispatch" in op for op in found) is not side_by_side
