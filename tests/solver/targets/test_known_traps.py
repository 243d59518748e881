"""Traps that people fell into, by the reports of their frameworks' users."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import BadRequest
from solver.plan import Evaluation
from solver.planner import evaluate, plan
from solver.question import question
from solver.request import PlanRequest
from solver.targets.planned import layers_of

GPT = "--hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --bf16"
GPT += " --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 16"


def megatron(flags: str, devices: int, **more: Any) -> PlanRequest:
    return PlanRequest.model_validate(
        {
            "model": {"megatron_args": f"{GPT} {flags}"},
            "cluster": {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": devices},
            **more,
        }
    )


def test_thirty_layers_on_four_stages_do_not_become_twenty_eight() -> None:
    """Megatron-LM issue 1304."""
    flags = "--num-layers 30 --pipeline-model-parallel-size 4"
    with pytest.raises(BadRequest) as error:
        question(megatron(flags, 4))
    assert "30" in error.value.detail
    planned = plan(
        PlanRequest.model_validate(
            {
                "model": {"megatron_args": f"{GPT} --num-layers 30"},
                "cluster": {"device": "A100-SXM4-80GB", "nodes": 1, "devices_per_node": 4},
                "layout": {"pipeline_parallel": 4, "tensor_parallel": 1, "data_parallel": 1},
                "recompute": {"policy": "optimal"},
                "target": {"framework": "megatron-lm"},
            }
        )
    )
    assert sum(layers_of(stage) for stage in planned.stages) == 30
    layout = next(a for a in planned.exports[0].arguments if "parallel-layout" in a)
    again = evaluate(megatron(f"--num-layers 30 --pipeline-model-parallel-size 4 {layout}", 4))
    assert [layers_of(stage) for stage in again.stages] == [
        layers_of(stage) for stage in planned.stages
    ]


def test_forty_eight_layers_on_eight_devices_have_no_four_chunks() -> None:
    """Megatron-Bridge pull request 4604."""
    flags = "--num-layers 48 --pipeline-model-parallel-size 8"
    with pytest.raises(BadRequest) as error:
        question(megatron(f"{flags} --num-virtual-stages-per-pipeline-rank 4", 8))
    assert "48 layers" in error.value.detail
    question(megatron(f"{flags} --num-virtual-stages-per-pipeline-rank 3", 8))


def test_full_recompute_may_need_more_than_none() -> None:
    """Megatron-LM issue 1300: what a layer rebuilds at once may exceed what it would have kept."""
    block = {
        "state_bytes": 10.0,
        "input_bytes": 4.0,
        "ops": [
            _op("wide", ["x"], 20.0, []),
            _op("narrow", ["wide"], 6.0, ["narrow"]),
        ],
    }
    request: dict[str, Any] = {
        "model": {"profile": {"blocks": {"layer": block}, "sequence": [["layer", 2]]}},
        "cluster": {"memory_bytes": 34.0},
        "training": {"global_batch_size": 4},
        "layout": {"pipeline_parallel": 2},
    }
    assert _evaluated(request, "none").fits
    assert not _evaluated(request, "full").fits


def _op(name: str, inputs: list[str], size: float, reads: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": inputs,
        "forward_seconds": 1.0,
        "backward_seconds": 2.0,
        "output_bytes": size,
        "backward_reads": reads,
    }


def _evaluated(request: dict[str, Any], policy: str) -> Evaluation:
    return evaluate(PlanRequest.model_validate({**request, "recompute": {"policy": policy}}))


def test_an_uneven_pipeline_is_as_large_as_its_heaviest_stage() -> None:
    """Megatron-Bridge pull request 5077: layers 1, 2, 2, 3, not two on average."""
    layout = "--pipeline-model-parallel-layout 'Et|tt|tt|tttL'"
    flags = f"--num-layers 8 --pipeline-model-parallel-size 4 {layout}"
    found = evaluate(megatron(flags, 4))
    assert [layers_of(stage) for stage in found.stages] == [1, 2, 2, 3]
    middle = found.stages[1].memory.weights
    assert found.stages[2].memory.weights == middle
    assert found.stages[3].memory.weights > 1.5 * middle
    assert found.peak_memory_bytes == max(stage.peak_memory_bytes for stage in found.stages)


def test_recompute_that_does_nothing_is_never_written() -> None:
    """A fused attention keeps no scores: its recompute saves nothing, says Megatron-LM itself."""
    found = plan(
        megatron(
            "--num-layers 8 --pipeline-model-parallel-size 2",
            2,
            recompute={"policy": "optimal"},
            target={"framework": "megatron-lm"},
            cluster={
                "device": "A100-SXM4-80GB",
                "nodes": 1,
                "devices_per_node": 2,
                "memory_bytes": 5.6e9,
            },
        )
    )
    assert found.restriction is not None
    modules = found.restriction.setting.get("recompute_modules", [])
    assert "core_attn" not in modules
    assert found.restriction.setting.get("recompute_num_layers", 1) != 0
