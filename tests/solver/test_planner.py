"""The planner through its public requests: by hand, against brute force, and what answers carry."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from solver.errors import BadRequest
from solver.plan import Plan, Status
from solver.planner import check, evaluate, plan
from solver.progress import Progress
from solver.request import PlanRequest
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs
from tests.solver.requests import HAND, hand, profile_request, small

CASES = 300


@pytest.mark.parametrize("seed", range(10_000, 10_000 + CASES))
def test_the_plan_of_a_profile_equals_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    stages = rng.randint(1, 4)
    schedule = rng.choice(["1f1b", "1f1b", "gpipe"])
    costs = random_costs(seed, stages, most_blocks=6)
    expected = exhaustive.optimum(costs, schedule, stages)
    request = json.dumps(profile_request(costs, schedule, stages))

    found = plan(PlanRequest.model_validate_json(request))

    if math.isinf(expected):
        assert found.status is Status.INFEASIBLE
        assert found.shortfall is not None
        assert found.shortfall.missing_bytes > 0
        assert found.shortfall.needed_bytes > costs.capacity_bytes
        return
    assert found.status is Status.SUCCEEDED
    assert found.fits
    assert found.iteration_seconds == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert found.lower_bound_seconds is not None
    assert found.lower_bound_seconds <= expected * (1 + 1e-9)
    assert found.gap is not None
    assert 0 <= found.gap <= 1e-6


def test_a_profile_planned_by_hand() -> None:
    """With F = 6, B = 10, sends of 0.5 and 3 micro-batches the last backward ends at 66.

    Stage 0 runs F at 0 and 6, B at 23, F at 33, B at 39 and, once stage 1 is done at 55.5, at 56.
    """
    found = plan(hand())
    assert found.iteration_seconds == 66.0
    assert found.lower_bound_seconds == pytest.approx(66.0)
    assert [stage.blocks for stage in found.stages] == [[("layer", 2)], [("layer", 2)]]
    assert [stage.in_flight for stage in found.stages] == [2, 1]
    # 2 layers x 10 of states, and in flight x 2 layers x (1 of input + 2 + 3 kept)
    assert [stage.peak_memory_bytes for stage in found.stages] == [20 + 2 * 12, 20 + 12]


def test_what_does_not_fit_is_recomputed_where_it_costs_least() -> None:
    """42 bytes: stage 0 needs 44, and one norm (1 s) dropped frees 2 x 2 and takes 2 to rebuild."""
    found = plan(hand(42.0))
    first, second = found.stages
    decided = {tuple(entry.recomputed): entry.count for entry in first.recompute}
    assert decided == {("norm",): 1, (): 1}
    assert first.recompute_seconds == 1.0
    assert first.backward_seconds == 11.0
    assert first.memory.activations == 2 * (4 + 6)
    assert first.memory.recompute == 2.0
    assert first.peak_memory_bytes == found.peak_memory_bytes == 42.0
    assert second.recompute_seconds == 0.0
    assert found.iteration_seconds == 68.0


def test_an_infeasible_profile_says_which_stage_misses_what() -> None:
    """Full recompute on stage 0: 20 of states, 2 x 2 x 1 of inputs, 5 rebuilt."""
    found = plan(hand(25.0))
    assert found.status is Status.INFEASIBLE
    assert found.fits is False
    assert found.shortfall is not None
    assert found.shortfall.stage == 0
    assert found.shortfall.needed_bytes == 29.0
    assert found.shortfall.missing_bytes == 4.0
    assert found.shortfall.memory_limit_bytes == 25.0
    assert found.error is not None
    assert "stage 0 of 2 misses 4 bytes" in found.error
    assert found.iteration_seconds is None
    assert found.stages == []


def test_an_infeasible_model_says_which_stage_misses_what() -> None:
    found = plan(small("llama-2-70b"))
    assert found.status is Status.INFEASIBLE
    assert found.shortfall is not None
    limit = found.shortfall.memory_limit_bytes
    assert found.shortfall.needed_bytes - limit == pytest.approx(found.shortfall.missing_bytes)
    assert found.shortfall.layout.tensor_parallel * found.shortfall.layout.pipeline_parallel == 4


STAGE_FIELDS = {
    "index",
    "blocks",
    "forward_seconds",
    "backward_seconds",
    "recompute_seconds",
    "in_flight",
    "peak_memory_bytes",
    "memory",
    "recompute",
}
EVALUATION_FIELDS = {
    "iteration_seconds",
    "tokens_per_second_per_device",
    "model_flops_utilization",
    "fits",
    "peak_memory_bytes",
    "layout",
    "stages",
    "breakdown",
}
PLAN_FIELDS = EVALUATION_FIELDS | {
    "id",
    "status",
    "lower_bound_seconds",
    "gap",
    "baselines",
    "solver",
}
LAYOUT_FIELDS = {
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "data_parallel",
    "virtual_stages",
    "micro_batch_size",
    "sequence_parallel",
    "zero_stage",
    "schedule",
}
BREAKDOWN_FIELDS = {
    "compute",
    "recompute",
    "bubble",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "optimizer",
}


def test_a_plan_carries_the_fields_of_the_contract() -> None:
    answer = plan(small()).model_dump(mode="json")
    assert answer.keys() >= PLAN_FIELDS
    assert all(answer[name] is not None for name in PLAN_FIELDS)
    assert answer["status"] == "succeeded"
    assert answer["layout"].keys() >= LAYOUT_FIELDS
    assert all(answer["layout"][name] is not None for name in LAYOUT_FIELDS)
    assert answer["breakdown"].keys() >= BREAKDOWN_FIELDS
    assert answer["baselines"].keys() >= {"full", "none", "selective"}
    assert answer["solver"].keys() >= {
        "seconds",
        "engine",
        "layouts_considered",
        "layouts_pruned",
    }
    for stage in answer["stages"]:
        assert stage.keys() >= STAGE_FIELDS
        assert stage["memory"].keys() >= {
            "weights",
            "gradients",
            "optimizer",
            "activations",
            "recompute",
        }
        for entry in stage["recompute"]:
            assert entry.keys() >= {"block", "count", "recomputed"}


def test_an_evaluation_carries_the_fields_of_the_contract() -> None:
    answer = evaluate(fixed()).model_dump(mode="json")
    assert answer.keys() >= EVALUATION_FIELDS
    assert all(answer[name] is not None for name in EVALUATION_FIELDS)


def fixed(**recompute: Any) -> PlanRequest:
    """A small model with its whole layout given."""
    layout = {"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 1}
    return small(layout={**layout, "micro_batch_size": 1}, recompute=recompute)


@pytest.mark.parametrize("request_", [small(), hand(42.0)], ids=["model", "profile"])
def test_the_parts_of_an_answer_add_up(request_: PlanRequest) -> None:
    found = plan(request_)
    assert found.breakdown is not None
    parts = found.breakdown.model_dump().values()
    assert sum(parts) == pytest.approx(found.iteration_seconds)
    assert all(part >= 0 for part in parts)
    for stage in found.stages:
        memory = stage.memory.model_dump().values()
        assert sum(memory) == pytest.approx(stage.peak_memory_bytes)
    assert found.peak_memory_bytes == max(stage.peak_memory_bytes for stage in found.stages)


@pytest.mark.parametrize(
    ("recompute", "seconds", "peaks"),
    [
        ({"policy": "none"}, 66.0, [44.0, 32.0]),
        ({"policy": "full"}, 90.0, [20 + 4 + 5.0, 20 + 2 + 5.0]),
        ({"policy": "uniform"}, 90.0, [20 + 4 + 5.0, 20 + 2 + 5.0]),
        ({"policy": "uniform", "num_layers": 2}, 90.0, [20 + 2 + 11.0, 20 + 1 + 11.0]),
        ({"policy": "block", "num_layers": 1}, 78.0, [20 + 14 + 5.0, 20 + 7 + 5.0]),
        ({"policy": "block", "num_layers": 0}, 66.0, [44.0, 32.0]),
        ({"policy": "optimal"}, 68.0, [42.0, 32.0]),
    ],
)
def test_policies_evaluated_by_hand(
    recompute: dict[str, Any], seconds: float, peaks: list[float]
) -> None:
    """B is 10, 16 or 13: both norms and products, none, or one layer's are run again."""
    found = evaluate(hand(42.0, recompute=recompute))
    assert found.iteration_seconds == seconds
    assert [stage.peak_memory_bytes for stage in found.stages] == peaks
    assert found.fits == (max(peaks) <= 42.0)


def test_selective_of_a_model_runs_fused_attention_again_and_keeps_its_output() -> None:
    kept, selective = evaluate(fixed(policy="none")), evaluate(fixed(policy="selective"))
    full = evaluate(fixed(policy="full"))
    for some, none, all_ in zip(selective.stages, kept.stages, full.stages, strict=True):
        assert none.recompute_seconds == 0.0
        assert 0.0 < some.recompute_seconds < all_.recompute_seconds
        assert all_.memory.activations < some.memory.activations == none.memory.activations
        assert {name for entry in some.recompute for name in entry.recomputed} == set()
        assert {name for entry in some.recompute for name in entry.repeated} == {"core_attention"}


def test_an_evaluation_of_the_plan_is_no_faster_than_the_plan() -> None:
    request = small()
    found = plan(request)
    assert found.layout is not None
    layout = found.layout.model_dump(
        include={"tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch_size"}
    )
    judged = evaluate(small(layout=layout))
    assert found.iteration_seconds is not None
    assert found.iteration_seconds <= judged.iteration_seconds * (1 + 1e-9)


def test_an_evaluation_of_an_open_layout_asks_for_it() -> None:
    with pytest.raises(BadRequest) as caught:
        evaluate(small())
    assert caught.value.field == "layout.tensor_parallel"
    assert "legal here: 1, 2, 4" in str(caught.value.hint)


def test_interleaving_divides_the_bubble_of_an_evaluation() -> None:
    """Sends apart, p = 2, v = 2, n = 4: (n v + p - 1) chunk passes of 8 seconds."""
    profile = {**HAND["model"]["profile"], "pipeline_send_seconds": 0.0}
    request = PlanRequest.model_validate(
        {
            **HAND,
            "model": {"profile": profile},
            "training": {"global_batch_size": 4},
            "layout": {"pipeline_parallel": 2, "virtual_stages": 2},
            "recompute": {"policy": "none"},
        }
    )
    found = evaluate(request)
    assert found.iteration_seconds == (4 * 2 + 1) * 8.0
    assert [(stage.index, stage.chunk) for stage in found.stages] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]


def test_the_number_of_stages_of_a_profile_can_be_searched() -> None:
    found = plan(
        PlanRequest.model_validate(
            {
                **HAND,
                "cluster": {"memory_bytes": 45.0, "nodes": 1, "devices_per_node": 4},
                "layout": {},
            }
        )
    )
    assert found.layout is not None
    assert found.solver is not None
    assert found.solver.layouts_considered == 4
    times = {}
    for stages in range(1, 5):
        one = plan(hand(45.0, layout={"pipeline_parallel": stages}))
        times[stages] = one.iteration_seconds or math.inf
    assert found.iteration_seconds == min(times.values())
    assert times[found.layout.pipeline_parallel] == found.iteration_seconds


def test_the_same_request_has_the_same_answer() -> None:
    for request in (small(), hand(42.0)):
        assert timeless(plan(request)) == timeless(plan(request))


def timeless(answer: Plan) -> str:
    """The answer without the only part of it that may differ."""
    return answer.model_dump_json(exclude={"solver": {"seconds"}})


def test_the_answer_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine a thousand times as slow the clock runs a thousand times as fast."""
    request, clock = small(solver={"time_limit_seconds": 86_400}), time.monotonic
    expected = timeless(plan(request))
    monkeypatch.setattr(time, "monotonic", lambda: 1000 * clock())
    assert timeless(plan(request)) == expected


def test_the_answer_does_not_depend_on_the_process() -> None:
    program = (
        "import sys; from solver.planner import plan\n"
        "from tests.solver.requests import hand, small\n"
        "for request in (small(), hand(42.0)):\n"
        "    answer = plan(request).model_dump_json(exclude={'solver': {'seconds'}})\n"
        "    sys.stdout.write(answer)"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout == timeless(plan(small())) + timeless(plan(hand(42.0)))


def test_progress_tells_of_a_falling_best_and_a_bound_below_it() -> None:
    told: list[Progress] = []
    found = plan(small(), progress=told.append)
    assert told
    best = [step.incumbent_seconds for step in told if step.incumbent_seconds is not None]
    assert best == sorted(best, reverse=True)
    for step in told:
        assert step.layouts_done <= step.layouts_total
        assert step.bound_seconds <= (found.iteration_seconds or math.inf) * (1 + 1e-9)


def test_a_search_without_time_says_so() -> None:
    found = plan(small(solver={"time_limit_seconds": 1e-9}))
    assert found.status is Status.FAILED
    assert found.error is not None
    assert "time_limit_seconds" in found.error
    assert found.iteration_seconds is None
    assert found.solver is not None
    assert found.solver.layouts_unfinished == found.solver.layouts_considered


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"training": {}}, "training.global_batch_size"),
        ({"layout": {}}, "layout.pipeline_parallel"),
        ({"layout": {"pipeline_parallel": 5}}, "layout.pipeline_parallel"),
        ({"target": {"framework": "abacus"}}, "target.framework"),
    ],
)
def test_a_profile_that_cannot_be_planned_names_the_field(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        plan(hand(**changes))
    assert caught.value.field == field
    assert caught.value.hint


def test_a_method_of_its_own_is_refused_what_it_does_not_plan_before_anything_is_solved() -> None:
    layout = {"pipeline_parallel": 2, "schedule": "gpipe"}
    with pytest.raises(BadRequest) as refused:
        check(small(recompute={"policy": "adapipe"}, layout=layout))
    assert refused.value.field == "layout.schedule"
    assert refused.value.hint
