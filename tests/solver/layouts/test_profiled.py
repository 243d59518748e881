"""The layout of a profile: its pipeline is given, the rest is carried along."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import BadRequest
from solver.layouts import profile_layout
from solver.request import LayoutRequest


def test_the_pipeline_is_the_given_one_and_the_rest_defaults_to_one() -> None:
    layout = profile_layout(LayoutRequest(pipeline_parallel=4), 10)
    assert (layout.pipeline_parallel, layout.devices, layout.schedule) == (4, 4, "1f1b")
    assert profile_layout(LayoutRequest(pipeline_parallel=2, tensor_parallel=8), 10).devices == 16


@pytest.mark.parametrize(
    ("asked", "field", "hint"),
    [
        ({}, "pipeline_parallel", "Give a number from 1 to 10, the blocks of the profile."),
        ({"pipeline_parallel": 11}, "pipeline_parallel", "Nearest legal value: 10."),
        ({"pipeline_parallel": 1, "virtual_stages": 2}, "virtual_stages",
         "Nearest legal value: 1."),
        ({"pipeline_parallel": 4, "virtual_stages": 3}, "virtual_stages",
         "Nearest legal value: 2."),
    ],
)  # fmt: skip
def test_an_impossible_pipeline_is_refused_with_the_way_out(
    asked: dict[str, Any], field: str, hint: str
) -> None:
    with pytest.raises(BadRequest) as error:
        profile_layout(LayoutRequest(**asked), 10)
    assert error.value.field == f"layout.{field}"
    assert error.value.hint == hint
