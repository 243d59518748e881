"""What each stage of the even split keeps, where its memory allows a choice."""

from __future__ import annotations

import math

import pytest

from solver.assess import assess
from solver.given_stages import stages_under
from solver.partition.even import even_stages
from solver.request import Policy, Recompute
from solver.schedules import make_schedule
from tests.solver.random_costs import random_costs

SHAPES = [("1f1b", 2, 2), ("1f1b", 2, 3), ("zb-v", 2, 2), ("chimera", 2, 1), ("gpipe", 2, 1)]


@pytest.mark.parametrize(("name", "devices", "chunks"), SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_the_even_split_fits_if_full_recompute_does_and_is_no_slower_than_what_fits(
    name: str, devices: int, chunks: int, seed: int
) -> None:
    costs = random_costs(seed, devices * chunks, most_blocks=8, late_weights=True, micro_batches=4)
    schedule = make_schedule(name, devices, costs.micro_batches, chunks)
    cuts = even_stages(costs, schedule)

    def judged(policy: Policy) -> tuple[float, bool]:
        stages = stages_under(Recompute(policy=policy), costs, schedule, cuts)
        assert tuple((stage.start, stage.stop) for stage in stages) == cuts
        found = assess(costs, schedule, stages)
        return found.makespan, found.fits

    fixed = [judged(policy) for policy in (Policy.NONE, Policy.FULL)]
    least = min((seconds for seconds, fits in fixed if fits), default=math.inf)
    seconds, fits = judged(Policy.OPTIMAL)
    if math.isfinite(least):
        assert fits
        assert seconds <= least * (1 + 1e-12)
