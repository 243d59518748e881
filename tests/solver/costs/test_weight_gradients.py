"""The part of backward that makes gradients of weights: half of every linear layer's."""

from __future__ import annotations

import pytest

from solver.costs.pipeline import Block, PipelineCosts
from solver.costs.weight_gradients import EMBEDDING, LINEAR
from solver.question import question
from solver.request import PlanRequest


def costs(model: str) -> PipelineCosts:
    """The costs of a model on one node of H100s."""
    asked = question(
        PlanRequest.model_validate(
            {
                "model": {"name": model},
                "cluster": {"device": "H100-SXM5-80GB", "nodes": 4, "devices_per_node": 8},
                "training": {"sequence_length": 4096, "global_batch_size": 64},
                "layout": {
                    "tensor_parallel": 4,
                    "pipeline_parallel": 8,
                    "data_parallel": 1,
                    "micro_batch_size": 1,
                },
            }
        )
    )
    return asked.costs(asked.layouts[0])


MODELS = ("llama-3.1-8b", "gpt-3-175b", "mixtral-8x7b", "deepseek-v3")


def layers(model: str) -> list[Block]:
    return [block for block in costs(model).blocks if block.checkpointable]


@pytest.mark.parametrize("model", MODELS)
def test_a_layer_makes_between_a_quarter_and_a_half_of_its_backward_late(model: str) -> None:
    for block in layers(model):
        share = block.weight_seconds / block.backward_seconds
        assert 0.2 < share <= 0.5
        assert all(op.weight_seconds <= op.backward_seconds for op in block.ops)


@pytest.mark.parametrize("model", MODELS)
def test_every_product_with_weights_is_known_by_name(model: str) -> None:
    """Whatever reads its input and leaves no other trace of attention or norms is a product."""
    known = LINEAR | {EMBEDDING}
    for block in costs(model).blocks:
        for op in block.ops:
            weighted = op.weight_seconds > 0
            assert weighted == (op.name in known)
            looks_linear = op.name.endswith(("_in", "_out", "_up", "_down", "projection"))
            assert weighted or not looks_linear, op.name


def test_an_input_that_products_share_waits_once() -> None:
    (block,) = layers("llama-3.1-8b")
    ops = {op.name: op for op in block.ops}
    normed = ops["attention_norm"].output_bytes
    assert ops["query_key"].weight_held_bytes == normed + ops["query_key"].output_bytes
    assert ops["value"].weight_held_bytes == ops["value"].output_bytes


def test_the_embedding_makes_nothing_but_gradients_of_its_table() -> None:
    embedding = costs("llama-3.1-8b").blocks[0]
    rows = embedding.ops[0]
    assert rows.name == EMBEDDING
    assert rows.weight_seconds == rows.backward_seconds
