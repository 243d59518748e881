"""Reading flags: both forms say the same, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.errors import BadRequest, StagecutError
from solver.workload.megatron import read_megatron_args
from solver.workload.megatron.flags import read_flags

SMALL: dict[str, Any] = {
    "--num-layers": 8,
    "--hidden-size": 512,
    "--num-attention-heads": 8,
    "--seq-length": 1024,
    "--max-position-embeddings": 1024,
    "--bf16": True,
}


def test_a_command_line_and_a_mapping_say_the_same() -> None:
    line = (
        "--num-layers 8 --hidden-size=512 --num-attention-heads 8 --seq-length 1024 "
        "--max-position-embeddings 1024 --bf16"
    )
    assert read_megatron_args(line) == read_megatron_args(SMALL)


def test_false_and_null_mean_absent() -> None:
    absent = {**SMALL, "--swiglu": False, "--num-experts": None}
    assert read_megatron_args(absent) == read_megatron_args(SMALL)


@pytest.mark.parametrize("value", [["a", "b"], "[a b]", "[a, b]"])
def test_a_list_may_be_json_or_bracketed_text(value: object) -> None:
    assert read_flags({"--recompute-modules": value}).words("--recompute-modules") == ["a", "b"]


def test_a_negative_number_is_a_value() -> None:
    assert read_flags("--window-size -1 0").words("--window-size") == ["-1", "0"]


def test_unknown_flags_are_listed_and_harmless_ones_are_not() -> None:
    notes = read_megatron_args({**SMALL, "--lr": "1e-4", "--frobnicate": 3}).notes
    assert any("--frobnicate" in note for note in notes)
    assert not any("--lr" in note for note in notes)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"--num-layers": "twelve"}, "--num-layers"),
        ({"--num-layers": 1 << 40}, "--num-layers"),
        ({"--num-layers": 0}, "--num-layers"),
        ({"--num-layers": True}, "--num-layers"),
        ({"--bf16": "yes"}, "--bf16"),
        ({"--hidden-dropout": 2}, "--hidden-dropout"),
        ({"--hidden-size": None}, "--hidden-size"),
        ({"--hidden-size": {"a": 1}}, "--hidden-size"),
        ({"--attention-backend": "quick"}, "--attention-backend"),
        ({"num-layers": 3}, "num-layers"),
    ],
)
def test_a_bad_value_names_its_flag(change: dict[str, Any], flag: str) -> None:
    with pytest.raises(BadRequest) as error:
        read_megatron_args({**SMALL, **change})
    assert error.value.field == f"model.megatron_args[{flag}]"


@pytest.mark.parametrize("line", ["train.py --num-layers 2", "--name 'open", "--bf16 --bf16 no"])
def test_a_line_that_is_not_flags_is_refused(line: str) -> None:
    with pytest.raises(BadRequest):
        read_megatron_args(line)


def test_one_flag_with_two_values_is_refused() -> None:
    with pytest.raises(BadRequest) as error:
        read_flags("--num-layers 8 --num-layers 9")
    assert error.value.field == "model.megatron_args[--num-layers]"


def _refusal(content: dict[str, Any] | str) -> StagecutError | None:
    try:
        read_megatron_args(content)
    except StagecutError as error:
        return error
    return None


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from([*SMALL, "--num-experts", "--mtp-num-layers"]), st.text()))
def test_whatever_stands_there_it_is_read_or_refused(change: dict[str, str]) -> None:
    refusal = _refusal({**SMALL, **change})
    assert refusal is None or refusal.field is not None


@given(st.text())
def test_any_text_is_read_or_refused(line: str) -> None:
    refusal = _refusal(line)
    assert refusal is None or refusal.field is not None


def test_flags_that_offload_are_said_to_need_less_memory_than_is_told() -> None:
    notes = read_megatron_args({**SMALL, "--fine-grained-activation-offloading": True}).notes
    (note,) = [note for note in notes if "--fine-grained-activation-offloading" in note]
    assert "recompute.offload" in note
