"""Problems name the field at fault and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from service.problems import Problem, ProblemError, from_stagecut_error
from service.reading import parse, validate
from solver.errors import IllegalLayout, SolverFailed
from solver.request import PlanRequest

CLUSTER = {"memory_bytes": 8e10}
OP = {"name": "a", "forward_seconds": 1, "backward_seconds": 1, "output_bytes": 1}


def profile(op: dict[str, Any]) -> dict[str, Any]:
    block = {"state_bytes": 1, "input_bytes": 1, "ops": [OP, OP, OP, {**OP, **op}]}
    return {"profile": {"blocks": {"layer": block}, "sequence": [["layer", 4]]}}


def refused(request: Any) -> Problem:
    with pytest.raises(ProblemError) as caught:
        validate(PlanRequest, request)
    return caught.value.problem


@pytest.mark.parametrize(
    ("request_", "field", "hint"),
    [
        (
            {"model": {"name": "m"}, "cluster": CLUSTER, "layout": {"tensor_paralel": 8}},
            "layout.tensor_paralel",
            "Did you mean tensor_parallel?",
        ),
        (
            {"model": {"name": "m"}, "cluster": CLUSTER, "layout": {"tensor_parallel": -8}},
            "layout.tensor_parallel",
            "Give a value greater than or equal to 1.",
        ),
        (
            {"model": profile({"inputs": [7]}), "cluster": CLUSTER},
            "model.profile.blocks.layer.ops[3].inputs[0]",
            "Give a string.",
        ),
        (
            {"model": profile({"kind": "magic"}), "cluster": CLUSTER},
            "model.profile.blocks.layer.ops[3].kind",
            "Choose one of 'compute' or 'communication'.",
        ),
        (
            {"model": profile({"forward_second": 1}), "cluster": CLUSTER},
            "model.profile.blocks.layer.ops[3].forward_second",
            "Did you mean forward_seconds?",
        ),
        ({"model": {"name": "m"}}, "cluster", "Add it."),
        (
            {"model": {"name": "m"}, "cluster": CLUSTER, "training": {"global_batch_size": "x"}},
            "training.global_batch_size",
            "Give a whole number.",
        ),
        ({"model": {"megatron_args": 7}, "cluster": CLUSTER}, "model.megatron_args", None),
        ([], None, "Give an object."),
    ],
)
def test_the_field_at_fault_and_the_way_out_are_named(
    request_: Any, field: str | None, hint: str | None
) -> None:
    problem = refused(request_)
    assert problem.status == 422
    assert problem.field == field
    if hint is not None:
        assert problem.hint == hint


@pytest.mark.parametrize("size", ["8", True, 8.5, ["8"], [[8]], {"8": 8}, []])
def test_what_only_looks_like_a_number_is_refused(size: Any) -> None:
    request = {"model": {"name": "m"}, "cluster": CLUSTER, "layout": {"tensor_parallel": size}}
    assert str(refused(request).field).startswith("layout.tensor_parallel")


def test_a_whole_number_may_be_written_with_a_point() -> None:
    request = {"model": {"name": "m"}, "cluster": CLUSTER, "layout": {"tensor_parallel": 8.0}}
    assert validate(PlanRequest, request).layout.tensor_parallel == 8


def test_two_forms_of_a_model_are_refused_in_words() -> None:
    problem = refused({"model": {"name": "m", "megatron_args": "-x"}, "cluster": CLUSTER})
    assert problem.field == "model"
    assert "exactly one of" in problem.detail


def test_every_field_at_fault_is_listed_and_a_misspelt_one_comes_first() -> None:
    problem = refused({"model": {"name": "m"}, "clustr": CLUSTER})
    assert [part.field for part in problem.errors] == ["clustr", "cluster"]
    assert problem.field == "clustr"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        '{"model": "é"}'.encode("utf-16"),
        b'{"model": NaN}',
        b'{"model": -Infinity}',
        b"[" * 100_000,
        b'{"model": ' + b"9" * 5000 + b"}",
        b'{"model": {"name": "\\ud800"}}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        parse(text)
    assert caught.value.problem.status == 400
    assert caught.value.problem.hint


def test_a_number_that_overflows_is_named() -> None:
    with pytest.raises(ProblemError) as caught:
        parse(b'{"model": {"huggingface": {"sizes": [1, 1e999]}}}')
    assert caught.value.problem.field == "model.huggingface.sizes[1]"


def test_an_error_of_the_solver_keeps_its_words() -> None:
    error = IllegalLayout("5 does not divide 64.", field="layout.tensor_parallel", hint="Use 4.")
    problem = from_stagecut_error(error)
    assert (problem.status, problem.detail, problem.field, problem.hint) == (
        422,
        "5 does not divide 64.",
        "layout.tensor_parallel",
        "Use 4.",
    )
    assert problem.type.endswith(":illegal-layout")


def test_a_failure_of_the_solver_is_not_the_callers_fault() -> None:
    assert from_stagecut_error(SolverFailed("no answer")).status == 500
