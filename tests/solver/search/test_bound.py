"""The quick bound: valid for every pipeline, and tight where stages are alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.search.bound import quick_bound
from tests.solver import exhaustive
from tests.solver.random_costs import random_costs


@given(seed=st.integers(0, 100_000), stages=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_plan_is_faster(seed: int, stages: int) -> None:
    ample = replace(random_costs(seed, stages), capacity_bytes=1e9)
    for schedule in ("1f1b", "gpipe"):
        best = exhaustive.optimum(ample, schedule, stages)
        assert quick_bound(ample, stages) <= best * (1 + 1e-9)


def test_on_one_device_it_is_the_time_itself() -> None:
    costs = replace(random_costs(1, 1), capacity_bytes=1e9)
    assert quick_bound(costs, 1) == pytest.approx(exhaustive.optimum(costs, "1f1b", 1))


def test_the_constant_and_the_update_are_part_of_it() -> None:
    costs = random_costs(2, 2)
    blocks = tuple(replace(block, optimizer_seconds=0.5) for block in costs.blocks)
    longer = replace(costs, blocks=blocks, fixed_seconds=3.0)
    more = 3.0 + 0.5 * len(costs.sequence) / 2
    assert quick_bound(longer, 2) == pytest.approx(quick_bound(costs, 2) + more)
