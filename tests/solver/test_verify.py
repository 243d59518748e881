"""The independent check: it passes what is right and catches each kind of wrong answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.costs.pipeline import Block, Op, PipelineCosts, States
from solver.errors import SolverFailed
from solver.plan import BlockRecompute, Evaluation, Stage
from solver.planner import evaluate, plan
from solver.question import question
from solver.request import PlanRequest
from solver.verify import verify
from tests.solver.requests import HAND, hand, small


def answered(request: PlanRequest) -> tuple[PipelineCosts, Evaluation]:
    """The costs of a fixed layout and the answer to it."""
    asked = question(request)
    (layout,) = asked.layouts
    return asked.costs(layout), evaluate(request)


def check(costs: PipelineCosts, answer: Evaluation, **claims: Any) -> None:
    """Check an answer, some of its claims replaced."""
    said: dict[str, Any] = {
        "stages": answer.stages,
        "iteration_seconds": answer.iteration_seconds,
        "fits": answer.fits,
        **claims,
    }
    verify(costs, answer.layout.schedule, answer.layout.pipeline_parallel, **said)


COSTS, ANSWER = answered(hand(42.0))


def changed(position: int, **fields: Any) -> list[Stage]:
    """The answer's stages, one of them changed."""
    stages = list(ANSWER.stages)
    stages[position] = stages[position].model_copy(update=fields)
    return stages


REQUESTS = {
    "profile": hand(42.0),
    "gpipe": hand(60.0, layout={"pipeline_parallel": 3, "schedule": "gpipe"}),
    "uniform": hand(recompute={"policy": "uniform", "num_layers": 2}),
    "interleaved": hand(
        training={"global_batch_size": 4},
        layout={"pipeline_parallel": 2, "virtual_stages": 2},
        recompute={"policy": "full"},
    ),
    "misfit": hand(30.0, recompute={"policy": "none"}),
    "model": small(
        layout={
            "tensor_parallel": 1,
            "pipeline_parallel": 2,
            "data_parallel": 2,
            "micro_batch_size": 1,
        },
        recompute={"policy": "full"},
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_right_answer_passes(name: str) -> None:
    costs, answer = answered(REQUESTS[name])
    check(costs, answer)


@pytest.mark.parametrize("factor", [1 - 1e-6, 1 + 1e-6, 0.5, 2.0])
def test_a_wrong_makespan_is_caught(factor: float) -> None:
    with pytest.raises(SolverFailed, match="iteration_seconds"):
        check(COSTS, ANSWER, iteration_seconds=ANSWER.iteration_seconds * factor)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_wrong_makespan_is_caught_in_every_kind_of_answer(name: str) -> None:
    costs, answer = answered(REQUESTS[name])
    with pytest.raises(SolverFailed, match="iteration_seconds"):
        check(costs, answer, iteration_seconds=answer.iteration_seconds * 0.999)


@pytest.mark.parametrize("position", [0, 1])
def test_a_wrong_peak_is_caught(position: int) -> None:
    peak = ANSWER.stages[position].peak_memory_bytes
    with pytest.raises(SolverFailed, match=rf"stages\[{position}\].peak_memory_bytes"):
        check(COSTS, ANSWER, stages=changed(position, peak_memory_bytes=peak - 1.0))


def test_a_false_fits_is_caught() -> None:
    with pytest.raises(SolverFailed, match="fits = False"):
        check(COSTS, ANSWER, fits=False)
    with pytest.raises(SolverFailed, match="fits = True"):
        check(replace(COSTS, capacity_bytes=41.9), ANSWER)


@pytest.mark.parametrize(
    "blocks", [[("layer", 1)], [("layer", 3)], [("layer", 2), ("head", 1)], []]
)
def test_a_lost_or_doubled_block_is_caught(blocks: list[tuple[str, int]]) -> None:
    with pytest.raises(SolverFailed, match="do not hold the model's blocks"):
        check(COSTS, ANSWER, stages=changed(0, blocks=blocks))


def test_blocks_in_another_order_are_caught() -> None:
    two = {"blocks": {**HAND["model"]["profile"]["blocks"]}}
    two["blocks"]["head"] = two["blocks"]["layer"]
    profile = {**HAND["model"]["profile"], **two, "sequence": [["layer", 3], ["head", 1]]}
    costs, answer = answered(hand(model={"profile": profile}))
    swapped = [
        answer.stages[0],
        answer.stages[1].model_copy(update={"blocks": [("head", 1), ("layer", 1)]}),
    ]
    with pytest.raises(SolverFailed, match="in their order"):
        check(costs, answer, stages=swapped)


@pytest.mark.parametrize("count", [1, 3])
def test_a_block_that_is_not_decided_once_is_caught(count: int) -> None:
    entry = BlockRecompute(block="layer", count=count, recomputed=[])
    with pytest.raises(SolverFailed, match="does not decide each of its blocks once"):
        check(COSTS, ANSWER, stages=changed(1, recompute=[entry]))


def test_hidden_recompute_is_caught() -> None:
    """Claiming to keep everything in the memory of recomputing, or its time, does not add up."""
    kept = [BlockRecompute(block="layer", count=2, recomputed=[])]
    with pytest.raises(SolverFailed, match="derives"):
        check(COSTS, ANSWER, stages=changed(0, recompute=kept))


def test_an_unknown_tensor_is_caught() -> None:
    entry = BlockRecompute(block="layer", count=2, recomputed=["nothing"])
    with pytest.raises(SolverFailed, match="has no tensor 'nothing'"):
        check(COSTS, ANSWER, stages=changed(1, recompute=[entry]))


CHAIN = Block(
    name="chain",
    ops=(
        Op("early", ("x",), 5.0, 0.0, 50.0),
        Op("late", ("early",), 1.0, 1.0, 4.0, backward_reads=("late",)),
    ),
    input_bytes=1.0,
    states=States(weights=2.0),
)


def test_a_missing_input_of_a_recomputed_tensor_is_caught() -> None:
    """Nobody needs early, so it is not kept; late cannot be made again without it."""
    costs = PipelineCosts((CHAIN,), (0,), micro_batches=1, capacity_bytes=100.0)
    stage = ANSWER.stages[0].model_copy(
        update={
            "blocks": [("chain", 1)],
            "recompute": [BlockRecompute(block="chain", count=1, recomputed=["late"])],
            "peak_memory_bytes": 2.0 + 1.0 + 4.0,
        }
    )
    with pytest.raises(SolverFailed, match="'late' of 'chain' lacks its input 'early'"):
        verify(costs, "1f1b", 1, [stage], 8.0, True)
    both = BlockRecompute(block="chain", count=1, recomputed=["early", "late"])
    whole = stage.model_copy(update={"recompute": [both], "peak_memory_bytes": 57.0})
    verify(costs, "1f1b", 1, [whole], 6.0 + 6.0 + 1.0, True)


def test_every_plan_is_checked_before_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SolverFailed("not today")

    monkeypatch.setattr("solver.finished.verify", refuse)
    for door in (plan, evaluate):
        with pytest.raises(SolverFailed, match="not today"):
            door(hand(42.0))
