"""Bounds of runs against every plan that uses them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.partition.paths import own_paths
from solver.partition.plan_bounds import plan_bounds
from tests.solver.partition.test_walks import Deep


@given(seed=st.integers(0, 10**6), alive=st.sampled_from([1.0, 0.8, 0.4]))
@settings(max_examples=80, deadline=None)
def test_no_plan_is_faster_than_the_bounds_of_its_runs(seed: int, alive: float) -> None:
    deep = Deep(seed)
    chance = np.random.default_rng(seed).random(deep.candidates.alive.shape)
    left = replace(deep.candidates, alive=deep.candidates.alive & (chance < alive))
    bounds = plan_bounds(left, own_paths(deep.schedule, deep.send))
    least = np.full(bounds.shape, np.inf)
    plans = deep.plans()
    for plan, seconds in zip(plans, deep.makespans(plans), strict=True):
        runs = [(stage, *left.index(stage, cut)) for stage, cut in enumerate(plan)]
        if all(left.alive[run] for run in runs):
            for run in runs:
                least[run] = min(least[run], seconds)
    assert (bounds <= least * (1 + 1e-12)).all()
    assert (np.isfinite(bounds) == np.isfinite(least)).all(), "runs of no plan are told"
