"""Runs whose times are made with known efficiencies."""

from __future__ import annotations

from typing import Any

from solver.calibrate.measured import MeasuredRun
from solver.calibrations import Calibration
from solver.planner import evaluate

CLUSTER = {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8}
TRUE = Calibration(
    name="true",
    device="H100-SXM5-80GB",
    values={"matmul_fraction": 0.68, "intra_fraction": 0.7},
)


def request(tensor: int, hidden: int, micro_batch: int) -> dict[str, Any]:
    return {
        "model": {
            "huggingface": {
                "model_type": "llama",
                "hidden_size": hidden,
                "intermediate_size": 4 * hidden,
                "num_attention_heads": hidden // 128,
                "num_key_value_heads": hidden // 128,
                "num_hidden_layers": 8,
                "vocab_size": 32000,
            }
        },
        "cluster": CLUSTER,
        "training": {"sequence_length": 4096, "global_batch_size": 64},
        "layout": {
            "tensor_parallel": tensor,
            "pipeline_parallel": 1,
            "data_parallel": 8 // tensor,
            "micro_batch_size": micro_batch,
        },
        "recompute": {"policy": "none"},
    }


def made(tensor: int, hidden: int, micro_batch: int) -> MeasuredRun:
    """A run that takes as long as the true efficiencies say."""
    asked = request(tensor, hidden, micro_batch)
    run = MeasuredRun.model_validate(
        {"group": f"hidden {hidden}", "request": asked, "measured": {"iteration_seconds": 1.0}}
    )
    exact = run.request.model_copy(update={"calibration": TRUE})
    seconds = evaluate(exact).iteration_seconds
    measured = run.measured.model_copy(update={"iteration_seconds": seconds})
    return run.model_copy(update={"measured": measured})


def runs() -> list[MeasuredRun]:
    return [
        made(tensor, hidden, size)
        for hidden in (4096, 8192)
        for tensor in (2, 8)
        for size in (1, 2)
    ]
