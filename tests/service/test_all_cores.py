"""A search on all cores ends as one in a single process."""

from __future__ import annotations

import time

import pytest

from service import all_cores
from service.all_cores import outcomes, plan_on_all_cores
from solver import planner
from solver.begun import Begun
from solver.search import parts
from tests.solver.search.test_parts import exactly


@pytest.mark.slow
def test_parts_worked_out_side_by_side_come_to_what_they_come_to_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "MOST_ALONE", 1)
    request = exactly(32)
    begun = planner.begin(request)
    assert isinstance(begun, Begun)
    assert len(begun.parts) > 1
    both, due = [], time.time() + 900
    for cores in (1, 2):
        monkeypatch.setattr(all_cores, "cores", lambda cores=cores: cores)
        both.append([{**each, "seconds": 0.0} for each in outcomes(request, begun.parts, due)])
    assert both[0] == both[1]


def test_a_search_that_is_dealt_out_gives_the_plan_of_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = exactly(49)
    whole = planner.plan(request)
    monkeypatch.setattr(parts, "MOST_ALONE", 1)
    monkeypatch.setattr(all_cores, "cores", lambda: 1)
    assert plan_on_all_cores(request).iteration_seconds == whole.iteration_seconds
