"""The layout of a profile: its pipeline is given, the rest is carried along."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from solver.errors import BadRequest
from solver.layouts import profile_layout
from solver.request import LayoutRequest, ScheduleName
from solver.schedules import make_schedule, schedule_graph


def test_the_pipeline_is_the_given_one_and_the_rest_defaults_to_one() -> None:
    layout = profile_layout(LayoutRequest(pipeline_parallel=4), 10, 8)
    assert (layout.pipeline_parallel, layout.devices, layout.schedule) == (4, 4, "1f1b")
    assert (
        profile_layout(LayoutRequest(pipeline_parallel=2, tensor_parallel=8), 10, 8).devices == 16
    )


@pytest.mark.parametrize(
    ("asked", "field", "hint"),
    [
        ({}, "pipeline_parallel", "Give a number from 1 to 10, the blocks of the profile."),
        ({"pipeline_parallel": 11}, "pipeline_parallel", "Nearest legal value: 10."),
        ({"pipeline_parallel": 1, "virtual_stages": 2}, "virtual_stages",
         "Nearest legal value: 1."),
        ({"pipeline_parallel": 4, "virtual_stages": 3}, "virtual_stages",
         "Nearest legal value: 2."),
        ({"pipeline_parallel": 2, "virtual_stages": 2, "schedule": "gpipe"}, "schedule",
         "Nearest legal values: 1f1b or zb-v."),
        ({"pipeline_parallel": 2, "virtual_stages": 1, "schedule": "zb-v"}, "virtual_stages",
         "Nearest legal value: 2."),
        ({"pipeline_parallel": 2, "virtual_stages": 2, "schedule": "zb-h1"}, "schedule",
         "Nearest legal values: 1f1b or zb-v."),
        ({"pipeline_parallel": 3, "schedule": "chimera"}, "pipeline_parallel",
         "Nearest legal values: 2 or 4."),
        ({"pipeline_parallel": 3, "virtual_stages": 2, "interleaving_group": 2},
         "interleaving_group", "Leave it out, or give 3 or more."),
        ({"pipeline_parallel": 3, "virtual_stages": 2, "interleaving_group": 5},
         "interleaving_group", "Leave it out, or give 3 or more."),
    ],
)  # fmt: skip
def test_an_impossible_pipeline_is_refused_with_the_way_out(
    asked: dict[str, Any], field: str, hint: str
) -> None:
    with pytest.raises(BadRequest) as error:
        profile_layout(LayoutRequest(**asked), 10, 6)
    assert error.value.field == f"layout.{field}"
    assert error.value.hint == hint


def test_rounds_that_do_not_come_out_even_are_refused_with_the_nearest_that_do() -> None:
    with pytest.raises(BadRequest) as error:
        profile_layout(LayoutRequest(pipeline_parallel=4, virtual_stages=2), 10, 6)
    assert error.value.field == "training.global_batch_size"
    assert error.value.hint == "Nearest legal values: 4 or 8."


def test_chimera_halves_the_micro_batches() -> None:
    asked = LayoutRequest(pipeline_parallel=4, schedule=ScheduleName.CHIMERA)
    with pytest.raises(BadRequest) as error:
        profile_layout(asked, 10, 5)
    assert error.value.field == "training.global_batch_size"
    assert error.value.hint == "Nearest legal values: 4 or 6."


def test_zb_v_has_two_chunks_on_a_device_without_being_told() -> None:
    asked = LayoutRequest(pipeline_parallel=4, schedule=ScheduleName.ZB_V)
    assert profile_layout(asked, 10, 5).virtual_stages == 2


def test_every_layout_that_is_accepted_has_an_order_that_can_be_run() -> None:
    """Neither a schedule that does not exist nor an order that waits for itself is let through."""
    groups = (None, 1, 2, 3, 4, 5, 8)
    sizes = itertools.product((2, 3, 4), (1, 2, 3), (1, 3, 5, 8), groups, ScheduleName)
    accepted = 0
    for devices, chunks, micro_batches, group, schedule in sizes:
        asked = LayoutRequest(
            pipeline_parallel=devices,
            virtual_stages=chunks,
            interleaving_group=group,
            schedule=schedule,
        )
        try:
            layout = profile_layout(asked, 12, micro_batches)
        except BadRequest:
            continue
        made = make_schedule(
            layout.schedule, devices, micro_batches, chunks, layout.interleaving_group
        )
        assert schedule_graph(made).tasks.size
        accepted += 1
    assert accepted > 100
