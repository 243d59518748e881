"""Plans under the schedules that split backward or run both ways, through the one door."""

from __future__ import annotations

from typing import Any

import pytest

from solver.planner import evaluate, plan
from solver.request import PlanRequest

OPS = [
    {"name": "a", "inputs": ["x"], "forward_seconds": 1, "backward_seconds": 2,
     "weight_seconds": 1, "weight_held_bytes": 2, "output_bytes": 2, "backward_reads": ["x"]},
    {"name": "b", "inputs": ["a"], "forward_seconds": 1, "backward_seconds": 2,
     "weight_seconds": 1, "weight_held_bytes": 1, "output_bytes": 3, "backward_reads": ["a", "b"]},
]  # fmt: skip


def request(schedule: str, memory: float = 40.0, **others: Any) -> PlanRequest:
    """Six layers on two devices, four micro-batches."""
    layer = {"state_bytes": 3, "input_bytes": 1, "ops": OPS}
    profile = {"blocks": {"layer": layer}, "sequence": [["layer", 6]]}
    document = {
        "model": {"profile": profile},
        "cluster": {"memory_bytes": memory},
        "training": {"global_batch_size": 4},
        "layout": {"pipeline_parallel": 2, "schedule": schedule},
    }
    return PlanRequest.model_validate(document | others)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v", "chimera"])
def test_a_plan_is_proved_and_checked(schedule: str) -> None:
    found = plan(request(schedule))
    assert found.status.value == "succeeded"
    assert found.gap == pytest.approx(0.0, abs=1e-9)
    copies = 2 if schedule == "chimera" else 1
    held = sum(count for stage in found.stages for _, count in stage.blocks)
    assert held == 6 * copies


def test_late_gradients_of_weights_make_a_plan_faster() -> None:
    seconds = {name: plan(request(name, 200.0)).iteration_seconds for name in ("1f1b", "zb-h1")}
    assert seconds["zb-h1"] == seconds["1f1b"] - 2 * 3 * 2.0  # 2 (p - 1) T_W less


def test_what_waits_is_part_of_the_answer() -> None:
    for stage in plan(request("zb-h1")).stages:
        layers = sum(count for _, count in stage.blocks)
        assert stage.weight_gradient_seconds == 2.0 * layers
        assert stage.waiting_bytes == 3.0 * layers
    for stage in plan(request("1f1b")).stages:
        assert stage.weight_gradient_seconds == stage.waiting_bytes == 0.0


@pytest.mark.parametrize("policy", ["none", "full", "optimal"])
def test_an_even_split_under_zb_h1_is_evaluated(policy: str) -> None:
    found = evaluate(request("zb-h1", recompute={"policy": policy}))
    assert [sum(count for _, count in stage.blocks) for stage in found.stages] == [3, 3]


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v"])
def test_restrictions_are_priced_as_they_are_planned(schedule: str) -> None:
    explanation = plan(request(schedule)).explanation
    assert explanation is not None
    per_model, block, uniform = explanation.prices
    for price, recompute in (
        (per_model, {"policy": "optimal", "choice_per": "model"}),
        (block, {"policy": "block", "num_layers": block.num_layers}),
        (uniform, {"policy": "uniform", "num_layers": uniform.num_layers}),
    ):
        assert (
            price.iteration_seconds
            == plan(request(schedule, recompute=recompute)).iteration_seconds
        )
