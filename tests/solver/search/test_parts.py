"""A search that is dealt out ends as one that is not, however its parts travel."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from solver import planner
from solver.begun import Begun
from solver.plan import Plan, Status
from solver.request import PlanRequest
from solver.search import parts
from tests.solver.search.test_spaces import small_space

SEEDS = (1, 32, 49)


def exactly(seed: int) -> PlanRequest:
    """A small space in which nothing is good enough before it is proved."""
    request = small_space(seed)
    return request.model_copy(
        update={"solver": request.solver.model_copy(update={"relative_gap": 0.0})}
    )


def dealt(request: PlanRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, int]:
    """The plan of a search that is dealt out after one layout, its parts solved last to first, all
    of them told as JSON; and how many parts there were.
    """
    monkeypatch.setattr(parts, "MOST_ALONE", 1)
    begun = planner.begin(request)
    if not isinstance(begun, Begun):
        return begun, 0
    ends = {}
    for number, part in reversed(list(enumerate(begun.parts))):
        told = json.loads(part.model_dump_json())
        ends[number] = json.loads(planner.part(request, told).model_dump_json())
    state = json.loads(begun.state.model_dump_json())
    return planner.gather(request, state, [ends[n] for n in sorted(ends)]), len(ends)


def solved_to_an_end(plan: Plan) -> int:
    solver = plan.solver
    assert solver is not None
    ends = (solver.layouts_pruned, solver.layouts_infeasible, solver.layouts_unfinished)
    return solver.layouts_considered - sum(ends)


def test_small_spaces_have_the_same_best_plan_and_an_honest_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared_out = 0
    for seed in SEEDS:
        request = exactly(seed)
        whole = planner.plan(request)
        together, number = dealt(request, monkeypatch)
        monkeypatch.undo()
        shared_out += number > 1
        assert together.status == whole.status
        assert together.solver is not None
        assert whole.solver is not None
        assert together.solver.layouts_considered == whole.solver.layouts_considered
        if whole.status is Status.SUCCEEDED:
            assert whole.iteration_seconds is not None
            assert together.iteration_seconds == pytest.approx(whole.iteration_seconds)
            assert together.lower_bound_seconds is not None
            assert together.lower_bound_seconds <= whole.iteration_seconds * (1 + 1e-9)
            assert 0 < solved_to_an_end(together) <= together.solver.layouts_solved
    assert shared_out == 3


def test_parts_share_the_time_limit_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes twenty seconds of a clock that stands still otherwise."""
    request, now, given = exactly(32), [0.0], []
    work_out = planner.part

    def part(*arguments: Any, time_limit_seconds: float, **others: Any) -> parts.PartOutcome:
        given.append(time_limit_seconds)
        found = work_out(*arguments, time_limit_seconds=time_limit_seconds, **others)
        now[0] += 20.0
        return found

    monkeypatch.setattr(parts, "MOST_ALONE", 1)
    monkeypatch.setattr(planner, "part", part)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    whole = request.solver.time_limit_seconds
    found = planner.plan(request)
    assert given == [pytest.approx(whole - 20.0 * number) for number in range(len(given))]
    assert given[-1] < 0  # and yet there is a plan, with a bound that holds
    assert found.lower_bound_seconds is not None
    assert found.lower_bound_seconds <= (found.iteration_seconds or 0.0)


def test_solving_in_one_process_is_the_same_as_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    request = exactly(32)
    apart, number = dealt(request, monkeypatch)
    assert number > 1
    here = planner.plan(request)
    times = {"solver": {"seconds"}}
    assert here.model_dump(exclude=times) == apart.model_dump(exclude=times)
