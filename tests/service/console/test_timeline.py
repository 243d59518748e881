"""The timeline in text: a row per device that fits the width and says what the replay says."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from service.console.timeline import Timeline
from service.pages.shown import ShownPlan
from tests.service.pages.plans import long_pipeline, sample_plan


def drawn(shown: ShownPlan, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(Timeline(shown.plan))
    return [line for line in out.getvalue().splitlines() if line.startswith(("stage", "device"))]


@pytest.mark.parametrize("width", [80, 132])
@pytest.mark.parametrize("shown", [sample_plan(), long_pipeline(8, 64)], ids=["short", "long"])
def test_there_is_a_row_per_device_within_the_width(shown: ShownPlan, width: int) -> None:
    rows = drawn(shown, width)
    assert len(rows) == shown.replay.devices
    assert len({len(row) for row in rows}) == 1
    assert max(len(row) for row in rows) <= width


def test_a_short_iteration_is_shown_whole_and_a_long_one_by_its_ends() -> None:
    assert not any(" ... " in row for row in drawn(sample_plan(), 100))
    assert all(" ... " in row for row in drawn(long_pipeline(8, 64), 100))


def test_the_first_stage_begins_and_ends_the_iteration() -> None:
    row = drawn(sample_plan(), 100)[0].removeprefix("stage 0").strip()
    assert row[0] == "0"
    assert row[-1] == "h"  # the backward of micro-batch 7, the last of eight


def test_the_last_stage_waits_for_its_first_input() -> None:
    row = drawn(sample_plan(), 100)[1].removeprefix("stage 1").strip()
    assert row.startswith(".")
    assert row.strip(".").startswith("0")
