"""The example requests: each is planned, proved, and no slower than what others would choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from solver.assess import assess
from solver.baselines.adapipe import adapipe
from solver.baselines.sum_and_bottleneck import sum_and_bottleneck
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import solve_partition
from solver.plan import Plan, Status
from solver.planner import evaluate, plan
from solver.question import question
from solver.request import PlanRequest, Recompute
from solver.schedules import make_schedule

EXAMPLES = {
    path.stem: path for path in sorted((Path(__file__).parents[1] / "examples").glob("*.json"))
}


@dataclass(frozen=True)
class Example:
    """A request and its plan."""

    name: str
    request: PlanRequest
    plan: Plan


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    """Each example in turn, planned once for all that is claimed of it, however long it takes."""
    written = PlanRequest.model_validate_json(EXAMPLES[request.param].read_bytes())
    patient = written.solver.model_copy(update={"time_limit_seconds": 900.0})
    asked = written.model_copy(update={"solver": patient})
    return Example(request.param, asked, plan(asked))


def test_there_is_an_example_of_each_kind() -> None:
    assert set(EXAMPLES) >= {
        "llama-3.1-70b-h100x64",
        "gpt-3-175b-a100x64-s4096",
        "gpt-3-175b-a100x64-s16384",
        "llama-2-70b-ascend-910x128",
        "profile-24-layers",
    }


def test_an_example_is_planned_and_proved(example: Example) -> None:
    found = example.plan
    assert found.status is Status.SUCCEEDED, found.error
    assert found.fits
    assert found.lower_bound_seconds is not None
    assert found.iteration_seconds is not None
    assert found.lower_bound_seconds <= found.iteration_seconds
    assert found.gap is not None
    assert found.solver is not None
    if found.solver.layouts_unfinished:  # told, and only of layouts that are bounded loosely
        assert any("several stages per device" in note for note in found.notes)
    else:
        assert found.gap <= 1e-3


def test_no_baseline_that_fits_beats_the_plan(example: Example) -> None:
    found = example.plan
    assert found.iteration_seconds is not None
    assert found.baselines.keys() >= {"none", "full", "selective"}
    for baseline in found.baselines.values():
        if baseline.fits:
            assert baseline.iteration_seconds is not None
            assert found.iteration_seconds <= baseline.iteration_seconds * (1 + 1e-9)


def test_the_plan_beats_full_recompute_evaluated_on_its_layout(example: Example) -> None:
    found, request = example.plan, example.request
    assert found.layout is not None
    layout = {
        field: value
        for field, value in found.layout.model_dump().items()
        if field in type(request.layout).model_fields
    }
    document = request.model_dump() | {"layout": layout, "recompute": {"policy": "full"}}
    judged = evaluate(PlanRequest.model_validate(document))
    assert judged.fits
    assert found.iteration_seconds is not None
    assert found.iteration_seconds <= judged.iteration_seconds
    assert judged.iteration_seconds == pytest.approx(found.baselines["full"].iteration_seconds)


def test_what_is_fixed_stays_as_asked(example: Example) -> None:
    assert example.plan.layout is not None
    chosen = example.plan.layout.model_dump()
    for field, value in example.request.layout.model_dump(mode="json", exclude_none=True).items():
        assert chosen[field] == value


def test_long_sequences_need_recompute_and_choosing_what_pays_off() -> None:
    name = "gpt-3-175b-a100x64-s16384"
    found = plan(PlanRequest.model_validate_json(EXAMPLES[name].read_bytes()))
    assert not found.baselines["none"].fits
    speed_up = found.baselines["full"].speed_up
    assert speed_up is not None
    assert speed_up > 1.1


def test_slow_sends_make_others_choose_a_slower_plan() -> None:
    """Simulated, what AdaPipe's recurrence and the sum and bottleneck take for best is slower."""
    asked = question(PlanRequest.model_validate_json(EXAMPLES["profile-slow-sends"].read_bytes()))
    costs = asked.costs(asked.some_layout)
    schedule = make_schedule("1f1b", 8, costs.micro_batches)
    menu = policy_menu(costs, Recompute())
    ours = solve_partition(costs, menu, schedule)
    assert isinstance(ours, Partition)
    assert ours.makespan == pytest.approx(1.375, rel=1e-6)
    assert ours.lower_bound == pytest.approx(1.375, rel=1e-6)
    others = {"adapipe": adapipe(costs, schedule), "sum": sum_and_bottleneck(costs, menu, schedule)}
    slower = {
        name: assess(costs, schedule, stages).makespan / ours.makespan
        for name, stages in others.items()
        if stages is not None
    }
    assert slower == pytest.approx({"adapipe": 1.038, "sum": 1.063}, abs=1e-3)
