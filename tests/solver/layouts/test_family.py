"""Families of layouts, and layouts that were named one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.layouts import Layout, listed

ONE = Layout(1, 2, 1, 1, 8, 1, 1, False, 0, "1f1b")


@pytest.mark.parametrize("zero_stage", [0, 1, 3])
@pytest.mark.parametrize("sharding_group", [0, 2, 8])
def test_a_listed_layout_is_itself_and_one(zero_stage: int, sharding_group: int) -> None:
    layout = replace(ONE, zero_stage=zero_stage, sharding_group=sharding_group)
    (family,) = listed([layout], [4])
    assert family.counts().tolist() == [1]
    assert family.variants(0) == (layout,)
