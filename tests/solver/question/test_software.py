"""Naming the software of a run: what it decides, and what does not go with it."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import BadRequest
from solver.planner import evaluate
from solver.question import only_layout, question
from solver.request import PlanRequest
from tests.solver.question.test_reading import NAMED, asked
from tests.solver.requests import HAND

LAYOUT: dict[str, Any] = {
    "tensor_parallel": 1,
    "pipeline_parallel": 2,
    "data_parallel": 4,
    "micro_batch_size": 1,
}


def run(software: str | None, **layout: Any) -> PlanRequest:
    return asked(NAMED, training={"software": software}, layout={**LAYOUT, **layout})


def test_megatron_lm_is_what_a_request_without_a_name_means() -> None:
    assert evaluate(run("megatron-lm")) == evaluate(run(None))


@pytest.mark.parametrize(
    ("software", "stages", "usual"),
    [("torchtitan", 1, 3), ("torchtitan", 2, 1), ("nanotron", 1, 1), ("internevo", 1, 1)],
)
def test_what_is_not_said_of_zero_is_as_the_software_does(
    software: str, stages: int, usual: int
) -> None:
    request = run(software, pipeline_parallel=stages, data_parallel=8 // stages)
    assert only_layout(question(request)).zero_stage == usual


def test_a_plan_considers_what_the_software_shards_and_no_more() -> None:
    found = question(run("nanotron"), to_plan=True)
    assert {family.member(0).zero_stage for family in found.families} <= {0, 1}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asked(HAND, training={"software": "nanotron"}), "training.software"),
        (run("nanotron", zero_stage=3), "layout.zero_stage"),
        (
            PlanRequest.model_validate(
                {**run("nanotron").model_dump(), "target": {"framework": "torchtitan"}}
            ),
            "training.software",
        ),
    ],
    ids=["a profile", "zero", "another target"],
)
def test_what_does_not_go_with_it_is_refused_with_its_field(
    request_: PlanRequest, field: str
) -> None:
    with pytest.raises(BadRequest) as error:
        question(request_)
    assert (error.value.field, bool(error.value.hint)) == (field, True)


def test_megatron_lms_flags_describe_no_other_software() -> None:
    flags = {"--num-layers": 4, "--hidden-size": 256, "--num-attention-heads": 4}
    model = {"megatron_args": {**flags, "--seq-length": 128, "--vocab-size": 1024}}
    request = PlanRequest.model_validate({**run("internevo").model_dump(), "model": model})
    with pytest.raises(BadRequest) as error:
        question(request)
    assert error.value.field == "training.software"


def test_an_optimizer_that_works_on_copies_is_the_fullest_moment() -> None:
    """InternEvo's step: 2 + 2 + 16 + 10 bytes of every parameter, while nothing is in flight."""
    request = asked(
        NAMED,
        training={"software": "internevo"},
        layout={**LAYOUT, "pipeline_parallel": 8, "data_parallel": 1},
        recompute={"policy": "full"},
    )
    found = evaluate(request)
    assert {str(stage.allocated_peak_at) for stage in found.stages} == {"optimizer step"}
    plain = evaluate(run(None, pipeline_parallel=8, data_parallel=1))
    ours = found.stages[3].allocated_peak_bytes / found.stages[3].allocated_steady_bytes
    assert ours > 1.4
    assert found.stages[3].allocated_steady_bytes > plain.stages[3].allocated_steady_bytes
