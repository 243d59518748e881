"""Blocks: filled exactly, in the order of their excess, none forgotten."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.placement.best_first import Fillings
from solver.placement.blocks import blocks
from solver.placement.cover import cover, profiles
from solver.placement.grid import Grid, profile_cost
from solver.placement.least import least_costs, least_of_leafs, worths
from solver.placement.strips import strips


@given(
    items=st.lists(
        st.tuples(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 5)),
        min_size=1,
        max_size=5,
    ),
    size=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_all_fillings_are_found_in_the_order_of_their_costs(
    items: list[tuple[tuple[int, int], int]], size: int
) -> None:
    items = [(amounts, cost) for amounts, cost in items if any(amounts)]
    if not items:
        return
    expected = []
    for count in range(1, 2 * size + 1):
        for taken in itertools.combinations_with_replacement(range(len(items)), count):
            sums = [sum(items[item][0][side] for item in taken) for side in (0, 1)]
            if sums == [size, size]:
                expected.append((sum(items[item][1] for item in taken), taken))
    found = list(Fillings([(a, float(c)) for a, c in items], size).cheapest(float("inf"), 100_000))
    assert [cost for cost, _ in found] == sorted(cost for cost, _ in expected)
    assert {taken for _, taken in found} == {taken for _, taken in expected}


@pytest.mark.parametrize("capacities", [[7, 8, 9, 6, 5, 13], [16, 16, 16], [11, 10, 9, 12, 8]])
def test_blocks_are_filled_exactly_and_their_excess_is_what_their_leafs_cost_more(
    capacities: list[int],
) -> None:
    grid = Grid(stages=8, rows=6, unit=1, group_bytes=3.0, edge_bytes=2.0)
    costs = least_costs(grid, max(capacities))
    worth = worths(grid, costs, capacities)
    for block in blocks(grid, worth, capacities, budget=20.0):
        assert np.array(block.profiles).sum(axis=0).tolist() == [grid.rows] * block.width
        more = sum(profile_cost(grid, p) - worth[sum(p)] for p in block.profiles)
        assert block.excess == pytest.approx(more)
        assert block.excess >= 0


def test_a_cover_takes_leafs_that_are_there_and_every_cell() -> None:
    grid = Grid(stages=12, rows=6, unit=1, group_bytes=3.0, edge_bytes=2.0)
    capacities = [6, 6, 6, 12, 12, 18, 9, 9, 3]
    costs = least_costs(grid, max(capacities))
    worth = worths(grid, costs, capacities)
    found = blocks(grid, worth, capacities, budget=10.0)
    least = least_of_leafs(grid, costs, capacities)
    for more in ([], strips(grid, worth, capacities, 10.0)):
        covered = cover(grid, [*found, *more], capacities, least, 5.0)
        assert covered is not None
        held = list(profiles(covered, grid.stages))
        assert np.array(held).sum(axis=0).tolist() == [grid.rows] * grid.stages
        sizes = sorted(map(sum, held), reverse=True)
        assert all(map(int.__le__, sizes, sorted(capacities, reverse=True)))


def test_strips_are_filled_exactly() -> None:
    grid = Grid(stages=12, rows=9, unit=1, group_bytes=3.0, edge_bytes=2.0)
    capacities = [6, 7, 8, 12, 12, 18, 9, 9, 5, 22]
    worth = worths(grid, least_costs(grid, 22), capacities)
    found = strips(grid, worth, capacities, budget=9.0)
    assert any(len(strip.profiles) > 1 for strip in found)
    for strip in found:
        assert np.array(strip.profiles).sum(axis=0).tolist() == [strip.height] * strip.width
        more = sum(profile_cost(grid, p) - worth[sum(p)] for p in strip.profiles)
        assert 0 <= strip.excess == pytest.approx(more)


def test_no_cover_is_said_where_blocks_do_not_suffice() -> None:
    grid = Grid(stages=3, rows=4, unit=1, group_bytes=3.0, edge_bytes=2.0)
    costs = least_costs(grid, 5)
    found = blocks(grid, worths(grid, costs, [5, 5, 2]), [5, 5, 2], budget=0.0)
    assert cover(grid, found, [5, 5, 2], 1.0, 5.0) is None
