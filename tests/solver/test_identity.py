"""The content address of a request."""

from __future__ import annotations

import json

import pytest

from solver import identity
from solver.identity import plan_id
from solver.planner import evaluate
from solver.request import PlanRequest, Policy, Recompute, canonical
from tests.solver.requests import HAND, hand, small


def test_an_id_is_32_hexadecimal_digits() -> None:
    assert len(plan_id(hand())) == 32
    assert int(plan_id(hand()), 16) >= 0


def test_the_order_of_keys_does_not_matter() -> None:
    backwards = json.loads(json.dumps(HAND), object_pairs_hook=lambda pairs: dict(pairs[::-1]))
    assert list(backwards) != list(HAND)
    assert plan_id(PlanRequest.model_validate(backwards)) == plan_id(hand())


def test_defaults_may_be_written_out() -> None:
    spelled = small(
        training={"sequence_length": 4096, "global_batch_size": 8, "precision": "bf16"},
        layout={"tensor_parallel": None},
        recompute={"policy": "optimal"},
        solver={"time_limit_seconds": 30, "relative_gap": 1e-4},
    )
    assert plan_id(spelled) == plan_id(small())


def test_whole_numbers_may_be_written_either_way() -> None:
    assert plan_id(hand(memory_bytes=42)) == plan_id(hand(memory_bytes=42.0))


@pytest.mark.parametrize(
    "other",
    [
        hand(43.0),
        hand(layout={"pipeline_parallel": 4}),
        hand(recompute={"policy": "full"}),
        hand(training={"global_batch_size": 4}),
        hand(solver={"time_limit_seconds": 31}),
    ],
)
def test_another_question_has_another_id(other: PlanRequest) -> None:
    assert plan_id(other) != plan_id(hand())


def test_another_version_of_the_solver_has_another_id(monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan_id(hand())
    monkeypatch.setattr(identity, "SOLVER_VERSION", "another")
    assert plan_id(hand()) != before


def test_what_flags_leave_out_stays_out_of_the_canonical_request() -> None:
    flags = {
        "--num-layers": 4,
        "--hidden-size": 1024,
        "--num-attention-heads": 8,
        "--seq-length": 1024,
        "--max-position-embeddings": 1024,
        "--vocab-size": 32000,
        "--micro-batch-size": 1,
        "--global-batch-size": 8,
        "--pipeline-model-parallel-size": 2,
        "--recompute-granularity": "full",
        "--recompute-method": "uniform",
        "--recompute-num-layers": 1,
        "--bf16": True,
    }
    cluster = {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 8}
    request = PlanRequest.model_validate({"model": {"megatron_args": flags}, "cluster": cluster})
    again = PlanRequest.model_validate(canonical(request))
    assert evaluate(again) == evaluate(request)
    assert evaluate(request).stages[0].recompute_seconds > 0

    spelt_out = request.model_copy(update={"recompute": Recompute(policy=Policy.NONE)})
    assert plan_id(spelt_out) != plan_id(request)
