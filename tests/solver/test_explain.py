"""Why a plan is as fast as it is: shares of the critical path, and changes solved again."""

from __future__ import annotations

import dataclasses

import pytest

from solver.assess import assess
from solver.costs.pipeline import Block, PipelineCosts
from solver.explain import GIGABYTE, explain
from solver.partition.menu import Menu
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.regime import Regime
from solver.partition.solve import PartitionProblem
from solver.partition.stages import decided_stages
from solver.plan import Explanation
from solver.request import Recompute
from solver.schedules import make_schedule
from tests.solver.random_costs import random_costs


def menu_of(costs: PipelineCosts) -> Menu:
    return policy_menu(costs, Recompute())


def explained(costs: PipelineCosts, stages: int) -> tuple[Explanation, float] | None:
    schedule = make_schedule("1f1b", stages, costs.micro_batches)
    menu = menu_of(costs)
    found = PartitionProblem(costs, menu, schedule).solve()
    if not isinstance(found, Partition):
        return None
    judged = assess(costs, schedule, decided_stages(found, menu))
    return explain(costs, schedule, judged, Regime(menu_of), solve_again=True), found.makespan


def gigabytes(costs: PipelineCosts) -> PipelineCosts:
    """The same pipeline with a unit of memory as large as the gigabyte that is added."""

    def scaled(block: Block) -> Block:
        return dataclasses.replace(
            block,
            input_bytes=block.input_bytes * GIGABYTE,
            states=dataclasses.replace(
                block.states,
                weights=block.states.weights * GIGABYTE,
            ),
            ops=tuple(
                dataclasses.replace(op, output_bytes=op.output_bytes * GIGABYTE) for op in block.ops
            ),
        )

    return dataclasses.replace(
        costs,
        blocks=tuple(scaled(block) for block in costs.blocks),
        capacity_bytes=costs.capacity_bytes * GIGABYTE,
    )


@pytest.mark.parametrize("seed", range(12))
def test_what_a_gigabyte_gains_is_what_a_larger_device_would_get(seed: int) -> None:
    costs = gigabytes(random_costs(seed, 3))
    found = explained(costs, 3)
    larger = explained(
        dataclasses.replace(costs, capacity_bytes=costs.capacity_bytes + GIGABYTE), 3
    )
    if found is None or larger is None:
        return
    explanation, makespan = found
    change = explanation.what_if[0]
    assert "memory" in change.change
    assert change.iteration_seconds == pytest.approx(larger[1])
    assert change.gain == pytest.approx(makespan / larger[1] - 1)
    assert change.gain >= -1e-9


def test_the_bottleneck_is_the_stage_that_holds_the_heavy_block() -> None:
    costs = random_costs(3, 3)
    heavy = dataclasses.replace(
        costs.blocks[0],
        ops=tuple(
            dataclasses.replace(op, forward_seconds=100.0, backward_seconds=200.0)
            for op in costs.blocks[0].ops
        ),
        name="heavy",
    )
    light = dataclasses.replace(
        costs.blocks[0],
        ops=tuple(
            dataclasses.replace(op, forward_seconds=1.0, backward_seconds=2.0)
            for op in costs.blocks[0].ops
        ),
    )
    pipeline = PipelineCosts(
        blocks=(light, heavy), sequence=(0, 1, 0), micro_batches=8, capacity_bytes=1e9
    )
    found = explained(pipeline, 3)
    assert found is not None
    assert found[0].bottleneck_stage == 1
    assert found[0].limited_by == "time"
    assert found[0].bottleneck_share > 0.9
