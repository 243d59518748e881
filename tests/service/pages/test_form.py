"""The form makes the request that it shows, and a request fills the form that makes it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.pages.form import JSON_FIELD, as_text, fields_of, pasted_request, request_of
from service.pages.make_page import filled
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
        "recompute.offload": "on",
    }
    request = request_of(fields)
    assert request["recompute"] == {"offload": "on"}
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
    again: Any = request_of(filled(request))
    assert PlanRequest.model_validate(again) == request


RICH = {
    "model": {"name": "mixtral-8x7b"},
    "cluster": {
        "device": "H100-SXM5-80GB",
        "nodes": 4,
        "devices_per_node": 8,
        "memory_bytes": 79_000_000_001.0,
        "inter_node_bytes_per_second": 5e10,
    },
    "training": {"sequence_length": 4096, "global_batch_size": 64, "optimizer": "sgd"},
    "layout": {"expert_tensor_parallel": 1, "interleaving_group": 4, "virtual_stages": 2},
    "recompute": {"policy": "selective", "modules": ["core_attention"], "overlap": "off"},
    "solver": {"relative_gap": 0.01, "granularity": "half"},
}


def test_what_the_form_does_not_show_is_kept_when_it_is_changed() -> None:
    fields = filled(PlanRequest.model_validate(RICH)) | {"training.global_batch_size": "128"}
    made = request_of(fields)
    assert made["training"] == RICH["training"] | {"global_batch_size": 128}  # type: ignore[operator]
    for part in ("model", "cluster", "layout", "recompute", "solver"):
        assert made[part] == RICH[part], part


def test_a_rounded_memory_stays_exact_until_it_is_changed() -> None:
    fields = filled(PlanRequest.model_validate(RICH))
    assert fields["cluster.memory_gib"] == "73.57"
    assert request_of(fields)["cluster"]["memory_bytes"] == 79_000_000_001.0
    changed = request_of(fields | {"cluster.memory_gib": "73.5"})
    assert changed["cluster"]["memory_bytes"] == 73.5 * 2**30


def test_what_is_emptied_in_the_form_is_left_out() -> None:
    fields = filled(PlanRequest.model_validate(RICH)) | {"layout.virtual_stages": ""}
    assert "virtual_stages" not in request_of(fields)["layout"]


def test_flags_that_say_more_keep_what_was_spelt_out() -> None:
    asked = PlanRequest.model_validate(
        {
            "model": {"megatron_args": "--num-layers 8"},
            "cluster": {"device": "H100-SXM5-80GB"},
            "training": {"precision": "bf16"},
        }
    )
    assert request_of(filled(asked))["training"] == {"precision": "bf16"}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tensor_parallel": st.integers(1, 64),
            "zero_stage": st.integers(0, 3),
            "sequence_parallel": st.booleans(),
            "expert_tensor_parallel": st.integers(1, 8),
            "schedule": st.sampled_from(["1f1b", "gpipe"]),
        },
    )
)
def test_any_layout_goes_through_the_form_unchanged(layout: dict[str, Any]) -> None:
    request = PlanRequest.model_validate(
        {"model": {"name": "gpt-2"}, "cluster": {}, "layout": layout}
    )
    assert PlanRequest.model_validate(request_of(filled(request))) == request


def test_the_json_fills_the_form_even_while_it_is_wrong() -> None:
    wrong = {"model": {"name": "gpt-2"}, "layout": {"tensor_parallel": "eight"}, "cluster": 3}
    fields = fields_of(wrong)
    assert fields["layout.tensor_parallel"] == "eight"
    assert pasted_request(as_text(wrong)) == wrong


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"'])
def test_a_json_that_is_no_request_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        pasted_request(text)
    assert caught.value.problem.field == JSON_FIELD
