"""Interleaved pipelines under ``block`` and ``uniform``: only the split is open."""

from __future__ import annotations

import itertools
import math

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.partition.stages import decided_stages
from solver.recompute.choice import keep_all
from solver.recompute.policies import full
from solver.request import Policy, Recompute
from solver.schedules import make_schedule
from tests.solver.exhaustive import interleaved_makespan, interleaved_order
from tests.solver.random_costs import random_costs


def best_split(costs: PipelineCosts, layers: int) -> float:
    """Every cut of two devices with two chunks, the first ``layers`` of each chunk recomputed."""
    best, n = math.inf, costs.micro_batches
    length = len(costs.sequence)
    for cuts in itertools.combinations(range(1, length), 3):
        runs = [costs.sequence[a:b] for a, b in itertools.pairwise((0, *cuts, length))]
        chosen = [
            [
                full(costs.blocks[kind]) if place < layers else keep_all(costs.blocks[kind])
                for place, kind in enumerate(sorted(run))
            ]
            for run in runs
        ]
        fits = all(
            sum(costs.blocks[kind].states.total for s in (d, d + 2) for kind in runs[s])
            + _most(interleaved_order(d, 2, 2, n), {s: chosen[s] for s in (d, d + 2)})
            <= costs.capacity_bytes
            for d in range(2)
        )
        if fits:
            forward = [sum(costs.blocks[k].forward_seconds for k in run) for run in runs]
            backward = [
                sum(costs.blocks[k].backward_seconds for k in run) + sum(c.seconds for c in choice)
                for run, choice in zip(runs, chosen, strict=True)
            ]
            best = min(best, interleaved_makespan(forward, backward, 2, n, costs.send_seconds))
    return best


def _most(order: list[tuple[str, int, int]], chosen: dict[int, list]) -> float:
    alive, most = dict.fromkeys(chosen, 0), 0.0
    for work, s, _ in order:
        if work == "F":
            alive[s] += 1
            continue
        held = sum(count * sum(c.kept_bytes for c in chosen[at]) for at, count in alive.items())
        most = max(most, held + max(c.recompute_bytes for c in chosen[s]))
        alive[s] -= 1
    return most


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_no_split_is_faster_than_the_one_found(seed: int, layers: int) -> None:
    costs = random_costs(seed, 4, micro_batches=4)
    if list(costs.sequence) != sorted(costs.sequence):
        pytest.skip("kinds in turn: counts alone do not say which layers come first")
    schedule = make_schedule("1f1b", 2, 4, 2)
    menu = policy_menu(costs, Recompute(policy=Policy.BLOCK, num_layers=layers))
    found = partition_problem(costs, menu, schedule).solve()
    expected = best_split(costs, layers)
    if isinstance(found, Partition):
        assert found.makespan == pytest.approx(expected, rel=1e-9)
        assert found.lower_bound == pytest.approx(found.makespan, rel=1e-9)
        assert len(decided_stages(found, menu)) == 4
    else:
        assert isinstance(found, Infeasible)
        assert math.isinf(expected)
