"""Recompute that hides, asked of the planner: its answers, its limits, and the check of both."""

from __future__ import annotations

from typing import Any

import pytest

from service.replay import Kind, replay
from solver.errors import BadRequest, SolverFailed
from solver.plan import PlacedTensor, Plan
from solver.planner import evaluate, plan
from solver.question import question
from solver.request import PlanRequest
from solver.verify import verify
from solver.verify_places import check_places

LAYER: dict[str, Any] = {
    "state_bytes": 4.0,
    "input_bytes": 1.0,
    "ops": [
        {
            "name": "wide",
            "inputs": ["x"],
            "forward_seconds": 2.0,
            "backward_seconds": 4.0,
            "output_bytes": 6.0,
            "backward_reads": ["x", "wide"],
        },
        {
            "name": "reduce",
            "inputs": ["wide"],
            "forward_seconds": 1.0,
            "backward_seconds": 2.5,
            "output_bytes": 1.0,
            "kind": "communication",
        },
    ],
}


def asked(overlap: str | None, memory: float = 28.0, **profile: Any) -> PlanRequest:
    """Six layers on two stages; what one layer makes fits one collective's time."""
    recompute = {} if overlap is None else {"overlap": overlap}
    return PlanRequest.model_validate(
        {
            "model": {
                "profile": {"blocks": {"layer": LAYER}, "sequence": [["layer", 6]], **profile}
            },
            "cluster": {"memory_bytes": memory},
            "training": {"global_batch_size": 6},
            "layout": {"pipeline_parallel": 2},
            "recompute": recompute,
        }
    )


def test_a_profile_recomputes_on_demand_unless_told_otherwise() -> None:
    default, off = plan(asked(None)), plan(asked("off"))
    assert default.iteration_seconds == off.iteration_seconds
    assert not any(entry.placed for stage in default.stages for entry in stage.recompute)
    assert not any(stage.recomputes_ahead for stage in default.stages)


def test_hidden_recompute_is_said_tensor_by_tensor_and_adds_no_time() -> None:
    off, hidden = plan(asked("off")), plan(asked("communication"))
    assert hidden.iteration_seconds is not None
    assert off.iteration_seconds is not None
    assert hidden.iteration_seconds < off.iteration_seconds
    first = hidden.stages[0]
    assert first.recompute_seconds == 0.0
    assert first.hidden_recompute_seconds == 6.0
    assert first.backward_seconds == 3 * 6.5
    placed = PlacedTensor(tensor="wide", window="reduce", following=False)
    assert all(entry.placed == [placed] for entry in first.recompute)
    assert first.memory.recompute == 6.0


def test_a_window_too_short_for_slowed_compute_takes_nothing() -> None:
    """2.0 seconds fit 2.5 at a slow-down of 1.25, and no longer at 1.3."""
    off = plan(asked("off"))
    fits = plan(asked("communication", overlap_slowdown=1.25))
    assert fits.stages[0].hidden_recompute_seconds > 0
    short = plan(asked("communication", overlap_slowdown=1.3))
    assert short.iteration_seconds == off.iteration_seconds


def test_recompute_ahead_stands_before_backward_and_holds_all_it_rebuilds() -> None:
    off, ahead = plan(asked("off", 42.0)), plan(asked("stalls", 42.0))
    assert ahead.iteration_seconds is not None
    assert off.iteration_seconds is not None
    assert ahead.iteration_seconds < off.iteration_seconds
    first = ahead.stages[0]
    assert first.recomputes_ahead
    assert first.ahead_seconds == first.recompute_seconds > 0
    assert first.backward_seconds == 3 * 6.5
    rebuilt = sum(6.0 * entry.count for entry in first.recompute if entry.recomputed)
    assert first.memory.recompute == rebuilt > 6.0
    bars = replay(ahead).bars
    apart = (bars.kind == Kind.RECOMPUTE) & (bars.device == 0)
    assert apart.sum() == 6
    assert replay(ahead).makespan == pytest.approx(ahead.iteration_seconds)


def test_all_is_no_slower_than_either() -> None:
    seconds = {name: plan(asked(name, 42.0)).iteration_seconds for name in ("stalls", "all")}
    hidden = plan(asked("communication", 42.0)).iteration_seconds
    assert seconds["all"] is not None
    assert seconds["stalls"] is not None
    assert hidden is not None
    assert seconds["all"] <= min(seconds["stalls"], hidden)


def test_a_policy_that_chooses_no_places_refuses_overlap() -> None:
    request = asked("communication").model_dump(mode="json")
    request["recompute"]["policy"] = "full"
    with pytest.raises(BadRequest) as refused:
        question(PlanRequest.model_validate(request))
    assert refused.value.field == "recompute.overlap"


def hidden_plan() -> Plan:
    return plan(asked("communication"))


@pytest.mark.parametrize(
    "placed",
    [
        PlacedTensor(tensor="wide", window="wide", following=False),
        PlacedTensor(tensor="reduce", window="reduce", following=False),
        PlacedTensor(tensor="other", window="reduce", following=False),
    ],
)
def test_the_check_catches_places_that_are_none(placed: PlacedTensor) -> None:
    request = asked("communication")
    costs = question(request).costs(question(request).layouts[0])
    stage = hidden_plan().stages[0]
    wrong = [entry.model_copy(update={"placed": [placed]}) for entry in stage.recompute]
    with pytest.raises(SolverFailed):
        check_places(costs, stage.model_copy(update={"recompute": wrong}))


def test_the_check_catches_a_window_that_two_blocks_fill() -> None:
    """The first layers place theirs in the next one's window, which places its own there too."""
    request = asked("communication")
    costs = question(request).costs(question(request).layouts[0])
    stage = hidden_plan().stages[0]
    one = stage.recompute[0].model_copy(update={"count": 1})
    lent = one.model_copy(
        update={"placed": [PlacedTensor(tensor="wide", window="reduce", following=True)]}
    )
    crowded = stage.model_copy(update={"recompute": [lent, one, one]})
    with pytest.raises(SolverFailed, match="holds more than it can"):
        check_places(costs, crowded)


def test_the_check_catches_a_stage_that_is_not_ahead() -> None:
    request = asked("stalls", 42.0)
    costs, found = question(request).costs(question(request).layouts[0]), plan(request)
    assert found.iteration_seconds is not None
    stages = list(found.stages)
    stages[0] = stages[0].model_copy(update={"recomputes_ahead": False})
    with pytest.raises(SolverFailed):
        verify(costs, "1f1b", 2, stages, found.iteration_seconds, fits=True)


def test_evaluation_in_stalls_is_no_slower_and_says_which_stages_are_ahead() -> None:
    off, stalls = evaluate(asked("off", 42.0)), evaluate(asked("stalls", 42.0))
    assert stalls.iteration_seconds < off.iteration_seconds
    assert any(stage.recomputes_ahead for stage in stalls.stages)
    best = plan(asked("stalls", 42.0))
    assert best.iteration_seconds is not None
    assert best.iteration_seconds <= stalls.iteration_seconds


@pytest.mark.parametrize("schedule", ["zb-h1", ["zb-v", "zb-h1"]])
def test_stalls_are_refused_where_no_schedule_recomputes_in_them(
    schedule: str | list[str],
) -> None:
    request = asked("stalls").model_dump(mode="json", exclude_unset=True)
    request["layout"] |= {"schedule": schedule}
    with pytest.raises(BadRequest) as refused:
        plan(PlanRequest.model_validate(request))
    assert refused.value.field == "layout.schedule"


@pytest.mark.parametrize(
    ("layout", "memory", "overlap"),
    [
        ({"virtual_stages": 3}, 40.0, "stalls"),
        ({"virtual_stages": 3}, 34.0, "all"),
        ({"schedule": "chimera"}, 58.0, "stalls"),
    ],
)
def test_chunks_of_a_device_recompute_in_stalls_too(
    layout: dict[str, Any], memory: float, overlap: str
) -> None:
    """The answer is checked again; its evaluation is of the even split, and no faster."""

    def with_chunks(overlap: str) -> PlanRequest:
        request = asked(overlap, memory).model_dump(mode="json", exclude_unset=True)
        request["layout"] |= layout
        return PlanRequest.model_validate(request)

    off, found = plan(with_chunks("off")), plan(with_chunks(overlap))
    assert found.iteration_seconds is not None
    assert off.iteration_seconds is not None
    assert found.iteration_seconds <= off.iteration_seconds
    assert found.gap == pytest.approx(0.0, abs=1e-6)
    if overlap == "stalls":
        assert any(stage.recomputes_ahead for stage in found.stages)
        assert ("virtual_stages" in layout) == (found.iteration_seconds < off.iteration_seconds)
    assert replay(found).makespan == pytest.approx(found.iteration_seconds)
    even, on_demand = evaluate(with_chunks(overlap)), evaluate(with_chunks("off"))
    assert found.iteration_seconds <= even.iteration_seconds <= on_demand.iteration_seconds


def test_a_plan_that_hides_prices_recompute_on_demand() -> None:
    found = plan(asked("communication"))
    assert found.explanation is not None
    priced = {entry.restriction: entry for entry in found.explanation.prices}
    on_demand = priced["recompute on demand"]
    assert on_demand.iteration_seconds == plan(asked("off")).iteration_seconds
    assert on_demand.slower is not None
    assert on_demand.slower > 0


def test_a_plan_that_hides_everywhere_prices_either_place() -> None:
    found = plan(asked("all"))
    assert found.explanation is not None
    priced = {entry.restriction: entry.iteration_seconds for entry in found.explanation.prices}
    communication = "recompute under communication only, none in stalls"
    stalls = "recompute in stalls only, none under communication"
    assert priced[communication] == plan(asked("communication")).iteration_seconds
    assert priced[stalls] == plan(asked("stalls")).iteration_seconds


def test_what_is_rebuilt_early_is_among_the_allocated_bytes() -> None:
    """The first of two blocks rebuilds 6 bytes in the window of the second."""
    wide, reduce = LAYER["ops"]
    layer = {**LAYER, "ops": [wide]}
    last = {**LAYER, "ops": [{**wide, "forward_seconds": 9.0}, reduce]}
    request = asked("communication", 22.0).model_dump(mode="json", exclude_unset=True)
    request["model"]["profile"]["blocks"] = {"layer": layer, "last": last}
    request["model"]["profile"]["sequence"] = [["layer", 1], ["last", 1]]
    request["layout"] = {"pipeline_parallel": 1}
    found = plan(PlanRequest.model_validate(request))
    (stage,) = found.stages
    placed = [placed for entry in stage.recompute for placed in entry.placed]
    assert placed == [PlacedTensor(tensor="wide", window="reduce", following=True)]
    # States, the first block's input, the second's own peak, and what is early.
    assert stage.allocated_peak_bytes == 8.0 + 1.0 + 14.0 + 6.0
