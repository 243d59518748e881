"""Whole spaces of layouts whose runs may offload, against solving every layout both ways."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.outcome import Infeasible, Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.problem import partition_problem
from solver.partition.regime import Regime
from solver.planner import found_by
from solver.question import Question, question
from solver.request import PlanRequest
from solver.schedules import make_schedule
from solver.search.regimes import layers_admitted, offload_costs
from tests.solver.search.test_spaces import small_space

SPACES = (6, 7, 8, 9, 21, 23, 24, 25, 28, 39, 46)
"""Those in which memory matters."""


def offloading_space(seed: int) -> PlanRequest:
    """A small space of long sequences, a quick link, and memory from too little to enough."""
    request = small_space(seed)
    memory = 2.2e9 * 1.04 ** (seed % 23)
    cluster: dict[str, Any] = {"memory_bytes": memory, "host_bytes_per_second": 5e10}
    if seed % 4 == 0:
        cluster["host_memory_bytes"] = 2e8
    return request.model_copy(
        update={
            "cluster": request.cluster.model_copy(update=cluster),
            "training": request.training.model_copy(update={"sequence_length": 8192}),
            "recompute": request.recompute.model_validate({"offload": "on"}),
        }
    )


@cache
def everything(seed: int) -> tuple[Question, dict[Layout, tuple[float, float]]]:
    """The question, and of every layout its best time on the devices and with their hosts."""
    asked = question(offloading_space(seed), to_plan=True)
    found = {}
    for family in asked.families:
        for position in range(len(family)):
            for layout in family.variants(position):
                costs = asked.costs(layout)
                moved = offload_costs(layout, costs)
                there = math.inf if moved is None else solved(asked, layout, moved)
                found[layout] = (solved(asked, layout, costs), there)
    return asked, found


def solved(asked: Question, layout: Layout, costs: PipelineCosts) -> float:
    schedule = make_schedule(
        layout.schedule, layout.pipeline_parallel, costs.micro_batches, layout.virtual_stages
    )
    menu = policy_menu(costs, asked.request.recompute)
    regime = Regime(lambda _: menu, admits=layers_admitted(costs))
    result = partition_problem(costs, menu, schedule, regime).solve(
        relative_gap=0.0, time_limit_seconds=60.0
    )
    if isinstance(result, Infeasible):
        return math.inf
    assert isinstance(result, Partition)
    return result.makespan


@pytest.mark.parametrize("seed", SPACES)
def test_the_search_finds_the_best_layout_and_its_bound_never_lies(seed: int) -> None:
    asked, found = everything(seed)
    best = min(min(times) for times in found.values())
    outcome = found_by(asked.request)
    if math.isinf(best):
        assert outcome.found is None
        return
    assert outcome.lower_bound <= best * (1 + 1e-9)
    assert outcome.found is not None
    assert outcome.found.partition.makespan >= best * (1 - 1e-9)
    if not outcome.unfinished:
        assert outcome.found.partition.makespan <= best * (1 + 2e-4)


def test_some_layouts_fit_only_with_their_hosts_and_some_plans_are_faster() -> None:
    fits = faster = 0
    for seed in SPACES:
        _, found = everything(seed)
        fits += sum(math.isinf(here) and math.isfinite(there) for here, there in found.values())
        here, there = (min(times) for times in zip(*found.values(), strict=True))
        faster += there < here * (1 - 1e-6)
    assert fits >= 1
    assert faster >= 4
