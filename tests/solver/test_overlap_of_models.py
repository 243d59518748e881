"""Recompute that hides on real layers: never slower than without, never faster than with room."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.overlap import Case, case_of, solved
from solver.planner import plan
from solver.request import Overlap, PlanRequest

EXAMPLES = Path(__file__).parents[2] / "examples" / "overlap"


def case(name: str) -> Case:
    return case_of(EXAMPLES / f"{name}.json")


@pytest.mark.parametrize("name", ["gpt-1.3b-a100-pcie", "gpt-4.7b-a100-nvlink"])
def test_hiding_lies_between_recompute_on_demand_and_free_memory(name: str) -> None:
    tight = case(name)
    ample = replace(tight, costs=replace(tight.costs, capacity_bytes=1e15))
    off, _, _ = solved(tight, Overlap.OFF)
    free, _, _ = solved(ample, Overlap.OFF)
    for overlap in (Overlap.COMMUNICATION, Overlap.ALL):
        seconds, gap, _ = solved(tight, overlap)
        assert free < seconds < off
        assert gap < 0.02


def test_a_layer_hides_in_its_own_windows_and_in_the_next_ones() -> None:
    """The planner's own check, which shares no code with the menus, lets this plan pass."""
    name = "gpt-1.3b-a100-pcie-tp4"
    request = json.loads((EXAMPLES / f"{name}.json").read_text())
    request["cluster"]["memory_bytes"] = case(name).costs.capacity_bytes
    found = plan(PlanRequest.model_validate(request))
    placed = [p for stage in found.stages for entry in stage.recompute for p in entry.placed]
    assert {p.following for p in placed} == {False, True}
