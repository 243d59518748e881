"""SAPP's plan beside others, on the costs that all of them are judged by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.baselines.sapp import Frame, frame
from solver.baselines.sapp_types import balanced, knows, recompute_types
from solver.baselines.side_by_side import _METHODS as KNOWN
from solver.baselines.side_by_side import baselines
from solver.costs.pipeline import Block, Module, Op, OpKind, PipelineCosts, States
from solver.partition.device_chains import mean_chain
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.plan import Plan
from solver.planner import plan
from solver.request import BaselineName, Recompute
from solver.schedules import GPipe, Interleaved, OneForwardOneBackward, ZeroBubbleH1
from tests.solver.requests import hand

LAYER = Block(
    name="layer",
    ops=(
        Op("scores", ("x",), 1.0, 2.0, 4.0, backward_reads=("x", "scores")),
        Op("sum", ("scores",), 0.5, 0.5, 2.0, kind=OpKind.COMMUNICATION),
        Op("out", ("sum",), 2.0, 3.0, 1.0, backward_reads=("sum", "out")),
    ),
    input_bytes=1.0,
    states=States(weights=5.0),
    working_bytes=1.0,
    modules=(Module("core_attn", ("scores",)),),
)
END = Block("end", (Op("end", ("x",), 1.0, 2.0, 1.0, ("x",)),), 1.0, checkpointable=False)
COSTS = PipelineCosts((END, LAYER), (0, *[1] * 8, 0), micro_batches=6, capacity_bytes=60.0)
ALONE, CHUNKS = OneForwardOneBackward(3, 6), Interleaved(3, 6, 2)


def test_five_types_of_a_layer() -> None:
    """All kept 8; without scores 4 (1 s), without the sum 6 (1.5 s as scores are there: 0.5)."""
    found = {(c.kept_bytes, c.seconds) for c in recompute_types(LAYER).choices}
    assert found == {(8.0, 0.0), (4.0, 1.0), (6.0, 0.5), (2.0, 1.5), (1.0, 3.5)}


def test_the_ends_of_a_model_do_not_recompute() -> None:
    assert [c.seconds for c in recompute_types(END).choices] == [0.0]


@pytest.mark.parametrize("capacity", [30.0, 45.0, 60.0, 200.0])
def test_its_plan_fits_and_is_no_faster_than_the_optimum(capacity: float) -> None:
    costs = replace(COSTS, capacity_bytes=capacity)
    best = PartitionProblem(costs, policy_menu(costs, Recompute()), ALONE).solve()
    assert isinstance(best, Partition)
    found = baselines(costs, ALONE, best.makespan, asked=[BaselineName.SAPP])["sapp"]
    assert found.fits
    assert found.iteration_seconds is not None
    assert found.iteration_seconds >= best.makespan * (1 - 1e-9)


@pytest.mark.parametrize("capacity", [45.0])
def test_it_plans_interleaved_pipelines(capacity: float) -> None:
    costs = replace(COSTS, capacity_bytes=capacity)
    found = baselines(costs, CHUNKS, 1.0, asked=[BaselineName.SAPP])["sapp"]
    least = mean_chain(costs, CHUNKS, 0.0)
    assert found.fits
    assert found.iteration_seconds is not None
    assert least <= found.iteration_seconds < 2 * least


def test_with_ample_memory_nothing_is_recomputed() -> None:
    stages = balanced(replace(COSTS, capacity_bytes=1e4), ALONE)
    assert stages is not None
    assert not any(part.choice.recomputed for stage in stages for part in stage.parts)


def test_models_that_it_does_not_know_are_left_out() -> None:
    assert frame((0, 1, 1, 3)) == Frame((0,), 1, (3,))
    assert frame((1, 1, 1)) == Frame((), 1, ())
    assert frame((0, 1, 2, 1, 2, 3)) is None
    assert frame((0, 1, 1, 2, 2, 2, 3)) is None
    assert knows(COSTS, ALONE)
    assert knows(COSTS, CHUNKS)
    assert not knows(replace(COSTS, sequence=(0, 1, 0, 1, 0)), ALONE)
    assert not knows(COSTS, GPipe(3, 6))
    assert not knows(COSTS, ZeroBubbleH1(3, 6))
    assert not knows(COSTS, OneForwardOneBackward(200, 400))


def test_a_request_says_what_stands_beside_its_plan() -> None:
    def shown(**solver: object) -> list[str]:
        found = plan(hand(solver=solver))
        assert isinstance(found, Plan)
        return list(found.baselines)

    assert "sapp" not in shown()
    assert shown(baselines=["sapp", "full"]) == ["full", "sapp"]
    assert shown(baselines=[]) == []


def test_every_baseline_can_be_asked_for() -> None:
    assert set(KNOWN) == set(BaselineName)
