"""Quick mixes against the cheapest ones."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.partition.free_menu import FreeMenu
from solver.partition.hulls import Hulls, corners
from tests.solver.partition.samples import free_menu, pipeline


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_quick_mix_fits_and_is_no_cheaper_than_the_cheapest(seed: int) -> None:
    costs, _ = pipeline(seed)
    menu = free_menu(costs)
    assert isinstance(menu, FreeMenu)
    chance = np.random.default_rng(seed)
    counts = chance.integers(0, 9, (6, len(costs.blocks))) + np.eye(6, len(costs.blocks), dtype=int)
    counts[:, 0] += counts.sum(axis=1) == 0
    states, flights = np.zeros(6), chance.integers(1, 5, 6)
    quick = menu.quick(counts, states, flights)
    for run, flight, seconds in zip(counts.tolist(), flights.tolist(), quick, strict=True):
        mix = menu.cheapest(tuple(run), 0.0, flight)
        assert seconds >= (math.inf if mix is None else mix.seconds * (1 - 1e-12))
    assert menu.cheapest_of(
        [(tuple(run), 0.0, flight) for run, flight in zip(counts.tolist(), flights, strict=True)]
    ) == [
        free_menu(costs).cheapest(tuple(run), 0.0, flight)
        for run, flight in zip(counts.tolist(), flights.tolist(), strict=True)
    ]


def test_blocks_are_rounded_down_along_the_hull() -> None:
    kept, seconds = np.array([1.0, 3.0, 4.0, 9.0]), np.array([10.0, 7.0, 4.0, 0.0])
    hull = corners(kept, seconds)
    assert hull == [(1.0, 10.0), (4.0, 4.0), (9.0, 0.0)]
    found = Hulls([[hull]]).rounded(np.full((5, 1), 3), np.array([[2.0, 3.0, 8.9, 12.0, 30.0]]))
    assert found.tolist() == [math.inf, 30.0, 24.0, 12.0, 0.0]
