"""The cost model's claims on states, sharding, communication and speed."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import pytest

from solver.cluster.cluster import Cluster, SwitchLevel
from solver.cluster.device import device
from solver.costs import model
from solver.costs.model import pipeline_costs, work
from solver.costs.pipeline import Account, Block, OpKind, PipelineCosts
from solver.layouts.layout import Layout
from solver.request import AttentionKernel, Optimizer, Precision, Training
from solver.workload.architecture import Architecture, Attention
from solver.workload.catalogue import architecture
from solver.workload.parameters import parameters
from tests.pace import pace

LLAMA = architecture("llama-3.1-70b")
MIXTRAL = architecture("mixtral-8x22b")
TRAINING = Training(sequence_length=8192, global_batch_size=128)
LAYOUT = Layout(8, 4, 1, 1, 2, 1, 1, True, 1, "1f1b")


def _cluster(nodes: int = 8) -> Cluster:
    unit = device("H100-SXM5-80GB")
    return Cluster(unit, nodes, 8, unit.memory_bytes, unit.inter_node_bytes_per_second, 8)


def _costs(
    layout: Layout = LAYOUT,
    training: Training = TRAINING,
    asked: Architecture = LLAMA,
    nodes: int = 8,
) -> PipelineCosts:
    return pipeline_costs(asked, _cluster(nodes), training, layout)


def _block(costs: PipelineCosts, name: str) -> Block:
    return next(block for block in costs.blocks if block.name == name)


def _states(costs: PipelineCosts) -> float:
    return sum(costs.blocks[kind].states.total for kind in costs.sequence)


def _account(block: Block, account: Account) -> float:
    return sum(
        op.forward_seconds + op.backward_seconds for op in block.ops if op.account is account
    )


@pytest.mark.parametrize(
    ("precision", "zero_stage", "bytes_per_parameter"),
    [
        (Precision.BF16, 0, 18.0),
        (Precision.BF16, 1, 6.0 + 12.0 / 4),
        (Precision.FP16, 0, 20.0),
        (Precision.FP16, 1, 4.0 + 16.0 / 4),
        (Precision.FP32, 0, 16.0),
        (Precision.BF16, 2, 2.0 + 16.0 / 4),
        (Precision.BF16, 3, 16.0 / 4),
    ],
)
def test_states_follow_the_table_of_bytes_per_parameter(
    precision: Precision, zero_stage: int, bytes_per_parameter: float
) -> None:
    layout = Layout(1, 1, 1, 1, 4, 1, 1, False, zero_stage, "1f1b")
    training = TRAINING.model_copy(update={"precision": precision})
    held = _states(_costs(layout, training, nodes=1))
    assert held == pytest.approx(bytes_per_parameter * parameters(LLAMA), rel=2e-3)


def test_a_tied_table_stands_on_both_ends_of_a_pipeline() -> None:
    tied = replace(LLAMA, tied_embeddings=True)
    one = Layout(8, 1, 1, 1, 1, 1, 1, True, 0, "1f1b")
    head = _block(_costs(one, asked=tied, nodes=1), "head")
    assert head.states.total < 1e-3 * _block(_costs(one, nodes=1), "head").states.total
    apart = _costs(replace(LAYOUT, data_parallel=1), asked=tied, nodes=4)
    assert _block(apart, "head").states.weights >= _block(apart, "embedding").states.weights
    assert apart.fixed_seconds > _costs(replace(LAYOUT, data_parallel=1), nodes=4).fixed_seconds


def test_the_vocabulary_is_padded_to_a_multiple_of_128_per_rank() -> None:
    even = replace(LLAMA, vocabulary_size=1024 * 125)
    odd = replace(LLAMA, vocabulary_size=1024 * 125 + 1)
    grown = _block(_costs(asked=odd), "head").states.weights
    step = 2.0 * 128 * LLAMA.hidden_size
    assert grown - _block(_costs(asked=even), "head").states.weights == pytest.approx(step)


def test_key_and_value_heads_fewer_than_the_ranks_are_replicated() -> None:
    wide = replace(LAYOUT, tensor_parallel=16, data_parallel=1)
    value = next(op for op in _block(_costs(wide), "layer").ops if op.name == "value")
    assert value.output_bytes == 2.0 * 8192 * 128


def test_tensor_parallelism_communicates_with_and_without_sequence_parallelism() -> None:
    for split in (True, False):
        layer = _block(_costs(replace(LAYOUT, sequence_parallel=split)), "layer")
        moves = [op for op in layer.ops if op.account is Account.TENSOR_PARALLEL]
        assert [op.kind for op in moves] == [OpKind.COMMUNICATION] * 4
        assert sum(op.forward_seconds for op in moves) > 0
        assert sum(op.backward_seconds for op in moves) > 0
    alone = _block(_costs(replace(LAYOUT, tensor_parallel=1, sequence_parallel=False)), "layer")
    assert _account(alone, Account.TENSOR_PARALLEL) == 0.0


def test_slower_cards_never_speed_a_layout_up() -> None:
    slow = replace(_cluster(), inter_node_bytes_per_second=5e9)
    for layout in (LAYOUT, replace(LAYOUT, zero_stage=3), replace(LAYOUT, tensor_parallel=16)):
        here = pipeline_costs(LLAMA, slow, TRAINING, layout)
        there = _costs(layout)
        for slower, faster in zip(here.blocks, there.blocks, strict=True):
            assert slower.forward_seconds >= faster.forward_seconds
            assert slower.gradient_seconds >= faster.gradient_seconds
        assert here.send_seconds >= there.send_seconds


def test_sharded_weights_move_with_every_micro_batch() -> None:
    sharded = _costs(replace(LAYOUT, zero_stage=3))
    layer = _block(sharded, "layer")
    assert layer.gradient_seconds == 0.0
    assert _account(layer, Account.DATA_PARALLEL) > 0.0
    assert _block(_costs(), "layer").gradient_seconds > 0.0


def test_the_step_of_sharded_software_works_on_copies() -> None:
    """4 bytes per own parameter of fp32 gradients, 8 of Adam's lists; no copies of fp32 ones."""
    layout = Layout(1, 1, 1, 1, 8, 1, 1, False, 3, "1f1b")
    own = parameters(LLAMA) / 8

    def needed(layout: Layout, training: Training = TRAINING) -> float:
        found = _costs(layout, training, nodes=1)
        return sum(found.blocks[kind].update_bytes for kind in found.sequence)

    assert needed(layout) == pytest.approx(12.0 * own, rel=2e-3)
    wide = TRAINING.model_copy(update={"precision": Precision.FP32})
    assert needed(layout, wide) == pytest.approx(8.0 * own, rel=2e-3)
    plain = TRAINING.model_copy(update={"optimizer": Optimizer.SGD})
    assert needed(layout, plain) == pytest.approx(4.0 * own, rel=2e-3)
    assert needed(replace(layout, zero_stage=1)) == 0.0


def test_context_parallelism_divides_tokens_and_exchanges_keys() -> None:
    split = _block(_costs(replace(LAYOUT, context_parallel=2, data_parallel=1)), "layer")
    whole = _block(_costs(replace(LAYOUT, data_parallel=1)), "layer")
    assert split.input_bytes == whole.input_bytes / 2
    assert split.forward_seconds < whole.forward_seconds
    assert any(op.name == "context_exchange" for op in split.ops)


SHARED = Layout(1, 4, 8, 1, 2, 1, 1, False, 1, "1f1b")


def shared(method: str) -> Block:
    """A layer whose sequences 8 devices share."""
    return _block(_costs(replace(SHARED, context_method=method)), "layer")


def test_each_way_of_exchanging_split_sequences_moves_what_it_should() -> None:
    """On one node of 365 GB/s rings or so: bytes over seconds is a rate that links have."""
    tokens = 8192 / 8
    keys_and_values = 2.0 * tokens * 2 * 8 * 128
    queries = output = 2.0 * tokens * 64 * 128
    ops = {method: {op.name: op for op in shared(method).ops} for method in METHODS}
    gather = ops["all-gather"]["context_exchange"]
    exchange = ops["all-to-all"]["context_exchange"]
    back = ops["all-to-all"]["context_return"]
    assert gather.output_bytes == 8 * keys_and_values
    assert gather.backward_seconds == pytest.approx(2 * gather.forward_seconds, rel=0.01)
    assert ops["all-gather"]["core_attention"].backward_bytes == gather.output_bytes
    assert exchange.output_bytes == queries + keys_and_values
    assert back.output_bytes == output
    assert exchange.backward_seconds == pytest.approx(exchange.forward_seconds, rel=0.01)
    rate = 7 / 8 * exchange.output_bytes / exchange.forward_seconds
    assert 50e9 < rate < 450e9
    # Nobody waits for a ring that attention hides.
    assert ops["ring"]["context_exchange"].forward_seconds < 0.2 * gather.forward_seconds * 8


METHODS = ("ring", "all-gather", "all-to-all")


def test_backward_needs_what_the_exchange_brought_and_both_outputs() -> None:
    reads = {method: set[str]() for method in METHODS}
    for method, found in reads.items():
        for op in shared(method).ops:
            found |= set(op.backward_reads)
    assert reads["ring"] == reads["all-gather"]
    exchanged = reads["all-to-all"] - reads["ring"]
    assert exchanged == {"context_exchange", "context_return"}
    assert "core_attention" in reads["all-to-all"]


def test_core_attention_under_checkpoint_exchanges_again() -> None:
    (inside,) = (m for m in shared("all-to-all").modules if m.name == "core_attn")
    assert "context_exchange" in inside.dropped
    (plain,) = (m for m in shared("ring").modules if m.name == "core_attn")
    assert "context_exchange" not in plain.dropped


def test_without_context_parallelism_the_method_means_nothing() -> None:
    alone = [_costs(replace(LAYOUT, context_method=method)).blocks for method in METHODS]
    assert alone[0] == alone[1] == alone[2]


def test_experts_spread_over_ranks_exchange_tokens() -> None:
    layout = Layout(2, 4, 1, 8, 8, 1, 1, True, 1, "1f1b")
    layer = _block(_costs(layout, asked=MIXTRAL), "layer")
    assert _account(layer, Account.EXPERT_PARALLEL) > 0.0
    alone = replace(layout, expert_parallel=1)
    assert layer.states.weights < _block(_costs(alone, asked=MIXTRAL), "layer").states.weights


def test_a_longer_sequence_costs_more_than_its_share() -> None:
    long = TRAINING.model_copy(update={"sequence_length": 65536})
    ratio = (
        _block(_costs(training=long), "layer").forward_seconds
        / _block(_costs(), "layer").forward_seconds
    )
    assert ratio > 65536 / 8192


def test_unfused_attention_is_slower_and_keeps_more() -> None:
    unfused = TRAINING.model_copy(update={"attention": AttentionKernel.UNFUSED})
    plain, slow = _block(_costs(), "layer"), _block(_costs(training=unfused), "layer")
    assert slow.forward_seconds > plain.forward_seconds
    assert sum(op.output_bytes for op in slow.ops) > sum(op.output_bytes for op in plain.ops)


def test_a_head_dimension_that_is_no_multiple_of_eight_slows_unfused_attention() -> None:
    unfused = TRAINING.model_copy(update={"attention": AttentionKernel.UNFUSED})
    layer, count = LLAMA.layers[0]
    assert isinstance(layer.attention, Attention)
    odd = replace(layer, attention=replace(layer.attention, head_dim=126))
    asked = replace(LLAMA, layers=((odd, count),))
    slow = _block(_costs(training=unfused, asked=asked), "layer")
    plain = _block(_costs(training=unfused), "layer")
    assert slow.forward_seconds > 1.5 * plain.forward_seconds


def test_model_flops_are_six_per_parameter_and_token_and_attention() -> None:
    found = work(LLAMA, _cluster(), TRAINING, LAYOUT)
    tokens = 128 * 8192
    dense = 6.0 * (parameters(LLAMA) - LLAMA.vocabulary_size * LLAMA.hidden_size) * tokens
    attention = 3.0 * 4.0 * 80 * LLAMA.hidden_size * 8192 / 2 * tokens
    assert found.model_flops == pytest.approx(dense + attention, rel=1e-3)
    assert found.devices == LAYOUT.devices


def test_one_layout_costs_less_than_two_milliseconds() -> None:
    layouts = [replace(LAYOUT, micro_batch_size=size) for size in range(1, 22)]
    _costs()
    seconds = []
    for layout in layouts:
        model._drafts.cache_clear()
        started = time.process_time()
        _costs(layout)
        seconds.append(time.process_time() - started)
    assert median(seconds) < 2e-3 * pace()


def test_replicas_that_fill_a_leaf_reduce_faster_than_replicas_on_every_leaf() -> None:
    """8 stages of 16 replicas: next to each other, or a pipeline apart."""
    leafs = replace(_cluster(16), switches=(SwitchLevel(32, 1 / 8),))
    near = Layout(1, 8, 1, 1, 16, 1, 1, False, 1, "1f1b")
    far = replace(near, rank_order="tp-cp-ep-pp-dp")
    reduction, sends = {}, {}
    for layout in (near, far):
        flat, scarce = (
            pipeline_costs(LLAMA, cluster, TRAINING, layout) for cluster in (_cluster(16), leafs)
        )
        slower = [_block(costs, "layer").gradient_seconds for costs in (scarce, flat)]
        reduction[layout] = slower[0] / slower[1]
        sends[layout] = scarce.send_seconds / flat.send_seconds
    assert reduction[near] == pytest.approx(1.0)
    assert reduction[far] > 1.5
    assert sends[far] == pytest.approx(1.0)
    assert sends[near] > 1.5
