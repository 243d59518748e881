"""Profiles as pipeline costs: every figure carried over, every reference checked."""

from __future__ import annotations

from typing import Any

import pytest

from solver.costs.pipeline import Account, OpKind
from solver.costs.profile import profile_costs
from solver.errors import BadRequest, UnknownName
from solver.request import Profile


def op(name: str, **fields: Any) -> dict[str, Any]:
    given = {"forward_seconds": 1.0, "backward_seconds": 2.0, "output_bytes": 3.0}
    return {"name": name, **given, **fields}


def profile(ops: list[dict[str, Any]], **fields: Any) -> Profile:
    layer = {"state_bytes": 7.0, "input_bytes": 5.0, "ops": ops}
    head = {"state_bytes": 1.0, "input_bytes": 2.0, "ops": [op("logits", inputs=["x"])]}
    content = {"blocks": {"head": head, "layer": layer}, "sequence": [["layer", 3], ["head", 1]]}
    return Profile.model_validate({**content, **fields})


OPS = [
    op("norm", inputs=["x"], backward_reads=["x"]),
    op("gather", inputs=["norm"], kind="communication"),
    op("matmul", inputs=["gather", "x"], backward_reads=["gather", "matmul"]),
]


def test_blocks_ops_and_sequence_are_carried_over() -> None:
    costs = profile_costs(profile(OPS, pipeline_send_seconds=0.5), 16, 100.0)
    assert [block.name for block in costs.blocks] == ["head", "layer"]
    assert costs.sequence == (1, 1, 1, 0)
    assert (costs.micro_batches, costs.capacity_bytes, costs.send_seconds) == (16, 100.0, 0.5)
    layer = costs.blocks[1]
    assert (layer.states.total, layer.input_bytes) == (7.0, 5.0)
    assert (layer.forward_seconds, layer.backward_seconds) == (3.0, 6.0)
    assert layer.ops[2].inputs == ("gather", "x")
    assert layer.ops[2].backward_reads == ("gather", "matmul")
    assert (layer.ops[1].kind, layer.ops[1].account) == (
        OpKind.COMMUNICATION,
        Account.TENSOR_PARALLEL,
    )


def test_blocks_that_the_sequence_does_not_use_are_left_out_but_checked() -> None:
    costs = profile_costs(profile(OPS, sequence=[["head", 2]]), 1, 1.0)
    assert ([block.name for block in costs.blocks], costs.sequence) == (["head"], (0, 0))
    with pytest.raises(BadRequest):
        profile_costs(profile([op("a", inputs=["b"])], sequence=[["head", 2]]), 1, 1.0)


@pytest.mark.parametrize(
    ("ops", "field"),
    [
        ([op("norm"), op("x")], "ops[1].name"),
        ([op("norm"), op("norm")], "ops[1].name"),
        ([op("norm", inputs=["x", "nrom"])], "ops[0].inputs[1]"),
        ([op("norm", inputs=["norm"])], "ops[0].inputs[0]"),
        ([op("norm", inputs=["late"]), op("late")], "ops[0].inputs[0]"),
        ([op("norm", inputs=["logits"])], "ops[0].inputs[0]"),
        ([op("norm"), op("mul", backward_reads=["x", "nowhere"])], "ops[1].backward_reads[1]"),
    ],
)
def test_a_bad_reference_is_refused_at_its_path(ops: list[dict[str, Any]], field: str) -> None:
    with pytest.raises(BadRequest) as error:
        profile_costs(profile(ops), 1, 1.0)
    assert error.value.field == f"model.profile.blocks.layer.{field}"


def test_a_misspelled_tensor_gets_the_close_one() -> None:
    with pytest.raises(BadRequest) as error:
        profile_costs(profile([op("attention"), op("mul", inputs=["atention"])]), 1, 1.0)
    assert error.value.hint == 'Name "x" or an earlier op. Did you mean attention?'


def test_a_sequence_names_known_blocks() -> None:
    with pytest.raises(UnknownName) as error:
        profile_costs(profile(OPS, sequence=[["layer", 1], ["layr", 1]]), 1, 1.0)
    assert error.value.field == "model.profile.sequence[1][0]"
    assert error.value.hint == "Did you mean layer?"


def test_a_sequence_is_at_most_4096_blocks_long() -> None:
    assert len(profile_costs(profile(OPS, sequence=[["layer", 4096]]), 1, 1.0).sequence) == 4096
    with pytest.raises(BadRequest) as error:
        profile_costs(profile(OPS, sequence=[["layer", 4096], ["head", 1]]), 1, 1.0)
    assert error.value.field == "model.profile.sequence"
