"""Activation bytes against the closed formulas of Korthikanti et al. 2022, tables 2 and 3."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.cluster.cluster import Cluster
from solver.cluster.device import device
from solver.costs.model import pipeline_costs
from solver.costs.pipeline import Block
from solver.layouts.layout import Layout
from solver.request import AttentionKernel, Precision, Training
from solver.workload.architecture import (
    Architecture,
    Attention,
    FeedForward,
    Layer,
    Norm,
    Positions,
)
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation

HIDDEN, HEADS, SEQUENCE, BATCH, TENSOR, VOCABULARY = 6144, 64, 2048, 4, 8, 51200
SBH = float(SEQUENCE * BATCH * HIDDEN)
SCORES = 5.0 * HEADS * SEQUENCE / HIDDEN

LAYER = Layer(
    Attention(HEADS, HEADS, HIDDEN // HEADS, query_key_value_bias=True, output_bias=True),
    FeedForward(4 * HIDDEN, gated=False, activation="gelu", bias=True),
    norm=Norm.LAYER,
    hidden_dropout=0.1,
    attention_dropout=0.1,
)
GPT_22B = Architecture(
    "gpt-22b",
    HIDDEN,
    VOCABULARY,
    ((LAYER, 48),),
    tied_embeddings=True,
    positions=Positions.LEARNED,
    max_positions=SEQUENCE,
    embedding_dropout=0.1,
)
TRAINING = Training(
    sequence_length=SEQUENCE,
    global_batch_size=BATCH,
    precision=Precision.FP16,
    attention=AttentionKernel.UNFUSED,
)
LAYOUT = Layout(TENSOR, 1, 1, 1, 1, 1, BATCH, True, 0, "1f1b")


def _cluster() -> Cluster:
    unit = device("A100-SXM4-80GB")
    return Cluster(unit, 1, 8, unit.memory_bytes, unit.inter_node_bytes_per_second, 8)


def reserve_of(layout: Layout, training: Training) -> float:
    return pipeline_costs(GPT_22B, _cluster(), training, layout).reserved_bytes


def blocks(
    layout: Layout,
    training: Training = TRAINING,
    implementation: Implementation = DEFAULT_IMPLEMENTATION,
) -> dict[str, Block]:
    costs = pipeline_costs(GPT_22B, _cluster(), training, layout, implementation=implementation)
    return {block.name: block for block in costs.blocks}


def _kept(block: Block, without: tuple[str, ...] = ()) -> float:
    needed = {name for op in block.ops for name in op.backward_reads} - {"x"} - set(without)
    return block.input_bytes + sum(op.output_bytes for op in block.ops if op.name in needed)


def _module(block: Block, name: str) -> tuple[str, ...]:
    return next(module.dropped for module in block.modules if module.name == name)


def test_no_parallelism_keeps_34_plus_5_a_s_over_h() -> None:
    layer = blocks(replace(LAYOUT, tensor_parallel=1, sequence_parallel=False))["layer"]
    assert _kept(layer) == pytest.approx(SBH * (34 + SCORES), rel=1e-12)


def test_tensor_parallelism_leaves_ten_replicated() -> None:
    layer = blocks(replace(LAYOUT, sequence_parallel=False))["layer"]
    assert _kept(layer) == pytest.approx(SBH * (10 + (24 + SCORES) / TENSOR), rel=1e-12)


def test_sequence_parallelism_splits_everything() -> None:
    layer = blocks(LAYOUT)["layer"]
    assert _kept(layer) == pytest.approx(SBH * (34 + SCORES) / TENSOR, rel=1e-12)


def test_selective_recompute_drops_the_score_matrix() -> None:
    split = blocks(LAYOUT)["layer"]
    whole = blocks(replace(LAYOUT, sequence_parallel=False))["layer"]
    dropped = _module(split, "core_attn")
    assert _kept(split, dropped) == pytest.approx(SBH * 34 / TENSOR, rel=1e-12)
    assert _kept(whole, dropped) == pytest.approx(SBH * (10 + 24 / TENSOR), rel=1e-12)


def test_full_recompute_keeps_the_layer_input() -> None:
    layer = blocks(replace(LAYOUT, sequence_parallel=False))["layer"]
    assert layer.input_bytes == 2 * SBH
    assert layer.rerun_seconds == pytest.approx(layer.forward_seconds)


def test_the_ends_keep_the_dropout_mask_and_four_sbh_times_one_plus_v_over_h() -> None:
    ends = blocks(LAYOUT)
    mask = _kept(ends["embedding"]) - ends["embedding"].input_bytes
    assert mask == pytest.approx(SBH / TENSOR, rel=1e-12)
    padded = -(-VOCABULARY // (128 * TENSOR)) * 128 * TENSOR
    expected = 4 * SBH / TENSOR * (1 + padded / HIDDEN)
    assert _kept(ends["head"]) == pytest.approx(expected, rel=1e-12)


def test_fused_attention_keeps_one_statistic_per_row_instead_of_the_scores() -> None:
    training = TRAINING.model_copy(update={"attention": AttentionKernel.FLASH})
    layer = blocks(LAYOUT, training)["layer"]
    statistics = 4.0 * BATCH * SEQUENCE * HEADS / TENSOR
    assert _kept(layer) == pytest.approx(SBH * 34 / TENSOR + statistics, rel=1e-12)


def test_halves_keep_what_the_whole_layer_keeps() -> None:
    costs = pipeline_costs(GPT_22B, _cluster(), TRAINING, LAYOUT, granularity="half")
    halves = [block for block in costs.blocks if block.name.startswith("layer_")]
    assert len(halves) == 2
    assert len(costs.sequence) == 2 * 48 + 2
    whole = blocks(LAYOUT)["layer"]
    assert sum(map(_kept, halves)) == pytest.approx(_kept(whole), rel=1e-12)
    assert sum(half.states.total for half in halves) == pytest.approx(whole.states.total)


def test_an_eager_loss_holds_two_fp32_gradients_of_the_logits_beside_theirs() -> None:
    plain, eager = (
        blocks(LAYOUT, implementation=Implementation(eager_loss=eager))["head"]
        for eager in (False, True)
    )
    logits = SEQUENCE * BATCH * VOCABULARY / TENSOR
    assert eager.working_bytes - plain.working_bytes == pytest.approx(8 * logits)
