"""Plans run for real, on processes of this machine: what was predicted is what happens."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import pytest

from solver.plan import Plan
from solver.planner import evaluate, plan
from solver.request import PlanRequest

torch = pytest.importorskip("torch")

from rehearsal.measure import profile  # noqa: E402
from rehearsal.model import Shape, layer  # noqa: E402
from rehearsal.rehearse import Rehearsal, rehearse  # noqa: E402
from solver.costs.profile import profile_costs  # noqa: E402
from solver.recompute.choice import choice_keeping, needed_tensors  # noqa: E402
from solver.request import Profile  # noqa: E402

TINY = Shape(hidden=32, feed_forward=64, sequence=32, micro_batch=1, vocabulary=64)
SMALL = Shape(hidden=64, feed_forward=256, sequence=128, micro_batch=2)


def capped(shape: Shape, layers: int, devices: int, micro_batches: int, **layout: int) -> Plan:
    """A plan under a memory that leaves no room for keeping everything."""
    request: dict[str, Any] = {
        "model": {"profile": profile(shape, layers)},
        "cluster": {"memory_bytes": 1e12},
        "training": {"global_batch_size": micro_batches},
        "layout": {"pipeline_parallel": devices, **layout},
        "solver": {"relative_gap": 0.02},
    }

    def needed(policy: str) -> float:
        asked = request | {"recompute": {"policy": policy}}
        return evaluate(PlanRequest.model_validate(asked)).peak_memory_bytes

    memory = 0.85 * needed("none") + 0.15 * needed("full")
    assert memory < needed("none"), "the cap excludes a plan that keeps everything"
    with patch("solver.finished.prices", return_value=[]):  # is not asked here
        found = plan(PlanRequest.model_validate(request | {"cluster": {"memory_bytes": memory}}))
    assert any(entry.recomputed for stage in found.stages for entry in stage.recompute)
    return found


def check(found: Rehearsal) -> None:
    assert found.kept_difference < 0.01
    assert found.same_order
    assert found.loss == pytest.approx(found.loss_unsplit, rel=1e-6)
    assert found.gradient_difference < 1e-6
    assert not found.left_out


def test_any_choice_of_a_layer_keeps_what_it_says_and_has_the_same_gradients() -> None:
    costs = profile_costs(Profile.model_validate(profile(TINY, 1)), 1, 1e12)
    block = costs.blocks[1]
    needed = sorted(needed_tensors(block))
    x = torch.randn(1, 32, 32, requires_grad=True)

    def run(names: tuple[str, ...]) -> tuple[int, list[Any]]:
        torch.manual_seed(3)
        made, x.grad = layer(TINY, names), None
        (made(x) ** 2).sum().backward()
        return made.kept_bytes, [x.grad, *(p.grad for p in made.parameters())]

    everything, expected = run(())
    assert everything == pytest.approx(choice_keeping(block, needed).kept_bytes)
    for number in range(2 ** len(needed)):
        kept = [name for bit, name in enumerate(needed) if number >> bit & 1]
        choice = choice_keeping(block, kept)
        held, gradients = run(choice.recomputed)
        assert held == pytest.approx(choice.kept_bytes, rel=1e-3), kept
        assert all(torch.equal(a, b) for a, b in zip(gradients, expected, strict=True)), kept


@pytest.mark.slow
def test_a_plan_beats_full_recompute_where_keeping_everything_does_not_fit() -> None:
    """Compared are the least times so far: what else runs only ever adds to one."""
    made = capped(SMALL, layers=8, devices=2, micro_batches=4)
    least = {"plan": math.inf, "full": math.inf}
    for _ in range(10):
        found = rehearse(made, shape=SMALL, most_layers=8, most_micro_batches=4, repeats=5)
        check(found)
        for name in least:
            least[name] = min(least[name], found.pipelines[name].measured_seconds)
        if least["plan"] < least["full"]:
            return
    pytest.fail(f"every time: {least}")


@pytest.mark.slow
def test_two_chunks_of_a_process_take_turns_as_planned() -> None:
    made = capped(TINY, 8, 2, 4, virtual_stages=2)
    found = rehearse(made, shape=TINY, most_micro_batches=4, repeats=1)
    check(found)
    assert len(found.layers) == 4
    assert found.processes == 2


@pytest.mark.slow
def test_four_processes_do_what_was_planned() -> None:
    check(rehearse(capped(TINY, 8, 4, 4), shape=TINY, most_micro_batches=4, repeats=1))


def test_a_large_plan_is_run_in_proportion() -> None:
    from rehearsal.scaled import scaled

    request = PlanRequest.model_validate(
        {
            "model": {"name": "llama-3.1-70b"},
            "cluster": {"device": "H100-SXM5-80GB", "nodes": 8, "devices_per_node": 8},
            "training": {"sequence_length": 8192, "global_batch_size": 64},
            "layout": {
                "tensor_parallel": 4,
                "pipeline_parallel": 4,
                "data_parallel": 4,
                "micro_batch_size": 1,
            },
        }
    )
    block = profile_costs(Profile.model_validate(profile(TINY, 1)), 1, 1e12).blocks[1]
    small = scaled(plan(request), block, most_layers=12, most_micro_batches=8)
    assert len(small.layers) == small.devices == 4
    assert 10 <= sum(small.layers) <= 14
    assert min(small.layers) >= 1
    assert small.left_out == ()
