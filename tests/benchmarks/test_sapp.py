"""SAPP's published cases: its program gives its published answer, ours a faster plan."""

from __future__ import annotations

import pytest
from ortools.math_opt.python import mathopt

from benchmarks import sapp


def test_its_program_gives_the_time_that_its_own_test_expects() -> None:
    case = sapp.small_test()
    found, _ = sapp.program(case, mathopt.SolverType.HIGHS, 30.0)
    assert found is not None
    assert found.proved
    simulated = sapp.seconds(case.costs, case.frontiers, case.schedule, found.cuts, found.parts)
    assert simulated == case.published_time


@pytest.mark.parametrize(
    ("case", "faster"), [(sapp.small_test(), 1.029), (sapp.llama2_70b(), 1.114)]
)
def test_our_plan_is_faster_than_the_published_one(case: sapp.Case, faster: float) -> None:
    makespan, bound, _ = sapp.ours(case)
    assert bound <= makespan
    assert case.published_time is not None
    assert case.published_time / makespan == pytest.approx(faster, abs=2e-3)
