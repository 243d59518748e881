"""Walks against every split: their limit is never passed by a plan that they said is not there."""

from __future__ import annotations

import itertools
import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solver.partition.candidates import Candidates, Cut
from solver.partition.runs import signatures
from solver.partition.walk_beam import promising_plans
from solver.partition.walks import Walks
from solver.schedules import OneForwardOneBackward, StageTimes, makespans


class Deep:
    """Stages of one to three blocks with times of their own per stage and run."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.stages = rng.randint(1, 6)
        self.blocks = self.stages + rng.randint(0, 4)
        micro_batches = max(self.stages + rng.choice([-3, -1, 0, 0, 1, 2, 5, 11, 40]), 1)
        self.schedule = OneForwardOneBackward(self.stages, micro_batches)
        self.send = rng.choice([0.0, 0.01, 0.1, 1.0, 5.0])
        self.candidates = self._candidates(rng)

    def _candidates(self, rng: random.Random) -> Candidates:
        stages, length = self.stages, self.blocks
        runs = signatures(tuple([0] * length), 1)
        low = np.arange(stages + 1)
        low[-1] = length
        width = length - stages + 1
        start, stop = low[:-1, None] + np.arange(width), low[1:, None] + np.arange(width)
        size = stop[:, None, :] - start[:, :, None]
        alive = (size > 0) & (stop <= length)[:, None, :] & (start < length)[:, :, None]
        alive[0, 1:] = False
        spread = rng.choice([0.0, 0.05, 0.5, 1.0])

        def seconds(each: float) -> np.ndarray:
            noise = np.array([rng.random() for _ in range(size.size)]).reshape(size.shape)
            return np.where(alive, each * size * (1 + spread * noise), 0.0)

        once = rng.choice([0.0, 2.0])
        return Candidates(
            offset=low,
            runs=runs.of_run[
                np.minimum(start, length)[:, :, None], np.minimum(stop, length)[:, None]
            ],
            alive=alive,
            forward=seconds(1.0),
            backward=seconds(rng.choice([0.5, 2.0])),
            step=seconds(once),
            before_first=seconds(once),
            after_last=seconds(once),
            weight=np.broadcast_to(np.float64(0.0), alive.shape),
            recompute=np.broadcast_to(np.float64(0.0), alive.shape),
        )

    def plans(self) -> list[tuple[Cut, ...]]:
        """Every split."""
        inner = itertools.combinations(range(1, self.blocks), self.stages - 1)
        return [tuple(itertools.pairwise((0, *cuts, self.blocks))) for cuts in inner]

    def makespans(self, plans: list[tuple[Cut, ...]]) -> np.ndarray:
        """Each split simulated."""
        here = self.candidates
        at = [
            [(stage, *here.index(stage, cut)) for stage, cut in enumerate(plan)] for plan in plans
        ]
        index = tuple(np.moveaxis(np.array(at), 2, 0))
        parts = ("forward", "backward", "before_first", "after_last", "step")
        taken = {part: getattr(here, part)[index] for part in parts}
        return makespans(self.schedule, StageTimes.of(send=self.send, **taken))

    def walks(self) -> Walks:
        """Their walks."""
        return Walks(self.candidates, self.schedule, self.send)


@given(seed=st.integers(0, 10**6), above=st.sampled_from([1e-9, 1e-3, 0.05, 0.5]))
@example(seed=41, above=1e-9)  # gathers of a later stage than the slowest
@settings(max_examples=80, deadline=None)
def test_a_limit_above_the_best_plan_leaves_a_plan(seed: int, above: float) -> None:
    deep = Deep(seed)
    best = deep.makespans(deep.plans()).min()
    walks = deep.walks()
    assert walks.below(np.array([best * (1 + 2 * above)]))[1]
    assert walks.below(np.array([best * (1 + above)]))[1], "limits may fall one after another"


@given(seed=st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_every_plan_below_a_limit_is_made_of_runs_that_are_left(seed: int) -> None:
    deep = Deep(seed)
    plans = deep.plans()
    seconds = deep.makespans(plans)
    walks = deep.walks()
    limit = float(np.quantile(seconds, 0.2)) * (1 + 1e-9)
    assert walks.below(np.array([limit]))[1]
    alive = walks.alive()
    for plan, taken in zip(plans, seconds, strict=True):
        if taken < limit:
            for stage, cut in enumerate(plan):
                assert alive[(stage, *deep.candidates.index(stage, cut))]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_limits_tried_at_once_are_told_apart_as_one_by_one(seed: int) -> None:
    deep = Deep(seed)
    best = deep.makespans(deep.plans()).min()
    limits = best * np.array([0.7, 0.9, 0.97, 0.999, 1.0001, 1.1])
    place, some = deep.walks().below(limits)
    alone = [deep.walks().below(limits[at : at + 1])[0] for at in range(len(limits))]
    assert place == alone.index(0), "the least limit that leaves something"
    assert place <= 4
    assert some or limits[place] <= best


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_promising_plans_are_plans_of_the_runs_that_are_left(seed: int) -> None:
    deep = Deep(seed)
    walks = deep.walks()
    everything = set(deep.plans())
    assert set(promising_plans(walks)) <= everything
    assert promising_plans(walks)
    limit = deep.makespans(deep.plans()).min() * 1.02
    walks.below(np.array([limit]))
    alive = walks.alive()
    for plan in promising_plans(walks):
        assert plan in everything
        for stage, cut in enumerate(plan):
            assert alive[(stage, *deep.candidates.index(stage, cut))]
