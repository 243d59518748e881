"""The form makes the request that it shows, and a request fills the form that makes it."""

from __future__ import annotations

from typing import Any

import pytest

from service.pages.form import request_of
from service.pages.make_page import fields_of
from service.problems import ProblemError
from service.schema_examples import example_requests
from solver.request import PlanRequest


def test_what_is_left_empty_is_left_out() -> None:
    fields = {"model_form": "name", "model.name": " llama-3.1-8b ", "layout.tensor_parallel": ""}
    assert request_of(fields) == {"model": {"name": "llama-3.1-8b"}, "cluster": {}}


def test_numbers_are_read_as_people_write_them() -> None:
    fields = {
        "model_form": "name",
        "model.name": "gpt-2",
        "training.global_batch_size": "1,024",
        "cluster.memory_gib": "71.5",
        "layout.sequence_parallel": "yes",
    }
    request = request_of(fields)
    assert request["training"]["global_batch_size"] == 1024
    assert request["cluster"]["memory_bytes"] == 71.5 * 2**30
    assert request["layout"]["sequence_parallel"] is True


def test_what_is_no_number_is_left_for_the_validation_to_name() -> None:
    request = request_of({"model.name": "gpt-2", "layout.tensor_parallel": "eight"})
    assert request["layout"]["tensor_parallel"] == "eight"


@pytest.mark.parametrize("form", ["huggingface", "profile"])
@pytest.mark.parametrize("text", ["", "{", "no json"])
def test_a_paste_that_is_no_json_is_refused_by_its_field(form: str, text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        request_of({"model_form": form, f"model.{form}": text})
    assert caught.value.problem.field == f"model.{form}"
    assert caught.value.problem.status == 422


def test_flags_may_be_pasted_with_their_line_ends() -> None:
    pasted = "--num-layers 32 \\\n--hidden-size 4096"
    request = request_of({"model_form": "megatron_args", "model.megatron_args": pasted})
    assert str(request["model"]["megatron_args"]).split() == [
        "--num-layers",
        "32",
        "--hidden-size",
        "4096",
    ]


@pytest.mark.parametrize("name", example_requests())
def test_the_form_of_a_request_makes_that_request(name: str) -> None:
    request = PlanRequest.model_validate(example_requests()[name])
    again: Any = request_of(fields_of(request))
    assert PlanRequest.model_validate(again) == request
