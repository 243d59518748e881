"""Experts' exchange beside another micro-batch's products: faster, fuller, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.costs.asymptote import asymptotic
from solver.costs.calibration import calibration
from solver.costs.exchange_overlap import (
    compute_seconds,
    held_meanwhile,
    with_exchange_hidden,
)
from solver.costs.overheads import host_bound
from solver.costs.pipeline import Account, Op, OpKind, PipelineCosts
from solver.planner import evaluate
from solver.question import only_layout, question
from solver.request import PlanRequest

REQUEST: dict[str, Any] = {
    "model": {"name": "qwen-3-30b-a3b"},
    "cluster": {"device": "H100-SXM5-80GB", "nodes": 2, "devices_per_node": 8},
    "training": {"sequence_length": 4096, "global_batch_size": 64},
    "layout": {
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "data_parallel": 16,
        "expert_parallel": 16,
        "micro_batch_size": 1,
    },
    "recompute": {"policy": "none"},
}


def asked(overlap: bool, **changes: Any) -> PlanRequest:
    training = {**REQUEST["training"], "overlap_expert_parallel": overlap}
    return PlanRequest.model_validate({**REQUEST, "training": training, **changes})


def costs_of(request: PlanRequest) -> PipelineCosts:
    found = question(request)
    return found.costs(only_layout(found))


def exchange(seconds: float, backward: float) -> Op:
    kind, account = OpKind.COMMUNICATION, Account.EXPERT_PARALLEL
    return Op("dispatch", ("x",), seconds, backward, 1.0, (), kind, account)


SECONDS = st.floats(0.0, 10.0)


@given(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, st.floats(0.0, 1.0))
def test_what_is_hidden_is_at_most_a_share_of_either_side(
    out: float, back: float, forward: float, backward: float, beside: float, share: float
) -> None:
    ops = (exchange(out, back), Op("product", ("dispatch",), forward, backward, 1.0))
    hidden = with_exchange_hidden(ops, share, beside)
    assert hidden[1] == ops[1]
    left = hidden[0].forward_seconds + hidden[0].backward_seconds
    computed = forward + backward + beside
    assert left == pytest.approx(out + back - share * min(out + back, computed), abs=1e-9)
    assert 0.0 <= hidden[0].forward_seconds <= out


def test_only_the_exchange_gets_shorter() -> None:
    plain, beside = costs_of(asked(False)), costs_of(asked(True))
    for before, after in zip(plain.blocks, beside.blocks, strict=True):
        for one, other in zip(before.ops, after.ops, strict=True):
            if one.account is Account.EXPERT_PARALLEL:
                assert 0.4 * one.forward_seconds < other.forward_seconds < one.forward_seconds
            else:
                assert other == one


def test_a_layer_recomputed_in_full_exchanges_again_with_nothing_beside_it() -> None:
    plain, beside = costs_of(asked(False)), costs_of(asked(True))
    for before, after in zip(plain.blocks, beside.blocks, strict=True):
        assert after.rerun_seconds == before.rerun_seconds
    assert any((block.rerun_seconds or 0.0) > block.forward_seconds for block in beside.blocks)


def test_halves_hide_what_the_layer_hides() -> None:
    def exchanged(granularity: str) -> float:
        costs = costs_of(asked(True, solver={"granularity": granularity}))
        found = [op for block in costs.blocks for op in block.ops if "expert_d" in op.name]
        return found[0].forward_seconds

    assert exchanged("half") == pytest.approx(exchanged("layer"), rel=0.01)


def test_overlapping_is_faster_and_takes_memory() -> None:
    plain, beside = evaluate(asked(False)), evaluate(asked(True))
    assert beside.iteration_seconds < 0.95 * plain.iteration_seconds
    block = costs_of(asked(False)).blocks[1]
    layer = held_meanwhile(block.ops, block.input_bytes)
    assert beside.peak_memory_bytes > plain.peak_memory_bytes + layer


def test_without_experts_on_several_devices_there_is_nothing_to_overlap() -> None:
    alone = {**REQUEST["layout"], "expert_parallel": 1}
    assert costs_of(asked(True, layout=alone)) == costs_of(asked(False, layout=alone))


def test_flags_ask_for_it() -> None:
    flags = (
        "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --bf16 "
        "--max-position-embeddings 1024 --vocab-size 32000 --num-experts 8 --moe-router-topk 2 "
        "--expert-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8 "
        "--moe-token-dispatcher-type alltoall "
    )
    cluster = {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 4}

    def exchanging(more: str) -> bool:
        model = {"megatron_args": flags + more}
        request = PlanRequest.model_validate({"model": model, "cluster": cluster})
        return costs_of(request).exchange_overlaps

    assert exchanging("--overlap-moe-expert-parallel-comm")
    assert not exchanging("")


def test_many_experts_on_a_device_wait_for_the_host() -> None:
    """256 rows for each of 128 experts: 3 microseconds of work, launched in 10."""
    training = {**REQUEST["training"], "sequence_length": 1024, "global_batch_size": 16}
    layout = {**REQUEST["layout"], "expert_parallel": 1}
    costs = costs_of(asked(False, training=training, layout=layout))
    layer = costs.blocks[1]
    assert layer.forward_seconds > 2 * 128 * 1e-5
    assert layer.backward_seconds > 4 * 128 * 1e-5


def test_launches_of_single_experts_count_with_the_host() -> None:
    fused = calibration("H100-SXM5-80GB", "fused").software
    ops = [Op("one", ("x",), 1e-6, 1e-6, 1.0)]
    none, many = host_bound(ops, fused), host_bound(ops, fused, 100)
    assert compute_seconds(many) > compute_seconds(none)
    assert host_bound(ops, replace(fused, grouped_launch_seconds=0.0), 100) == none


def test_work_without_end_takes_no_op_for_longer() -> None:
    """Bounds are made of it: an exchange must not lose what hides it."""
    slow = {**REQUEST["cluster"], "inter_node_bytes_per_second": 2e9}
    found = question(asked(True, cluster=slow))
    layout = only_layout(found)
    assert found.calibrated is not None
    shipped = partial(calibration, "H100-SXM5-80GB")
    ended = found.calibrated.costs(layout, shipped).blocks
    endless = found.calibrated.costs(layout, asymptotic(shipped)).blocks
    for block, bound in zip(ended, endless, strict=True):
        for op, least in zip(block.ops, bound.ops, strict=True):
            assert least.forward_seconds <= op.forward_seconds * (1 + 1e-9)
            assert least.backward_seconds <= op.backward_seconds * (1 + 1e-9)


def test_what_an_overlap_holds_grows_with_the_micro_batch() -> None:
    """Bounds of all micro-batches are made of the costs of a large one (``search/rough.py``)."""
    large = {**REQUEST["layout"], "micro_batch_size": 4}
    one, four = costs_of(asked(True)), costs_of(asked(True, layout=large))
    assert four.reserved_bytes == one.reserved_bytes
    assert four.blocks[1].working_bytes == pytest.approx(4 * one.blocks[1].working_bytes, rel=0.01)
