"""The benchmark of the partition runs, and its plain program is the same problem."""

from __future__ import annotations

import pytest
from ortools.math_opt.python import mathopt

from benchmarks import partition
from benchmarks.plain_program import solve_plain


def test_it_prints_median_and_95th_percentile(capsys: pytest.CaptureFixture[str]) -> None:
    partition.main(
        [
            "--limits",
            "3",
            "--compared",
            "1",
            "--time-limit",
            "2",
            "--layers",
            "12",
            "--stages",
            "4",
            "--others",
            "1",
        ]
    )
    printed = capsys.readouterr().out
    assert "12 layers on 4 stages, 32 micro-batches: 3 memory limits" in printed
    assert "GPipe: 1 memory limits" in printed
    assert "median" in printed
    assert "95th percentile" in printed
    assert "HiGHS" in printed
    assert "CP-SAT" in printed


@pytest.mark.parametrize("solver", [mathopt.SolverType.HIGHS, mathopt.SolverType.CP_SAT])
def test_the_plain_program_comes_to_the_same_makespan(solver: mathopt.SolverType) -> None:
    """Sends are so short, and stages so alike, that the four paths give the makespan."""
    small = partition.case(stages=3, layers=9)
    for limit in small.limits(2):
        ours = partition.solve(small, limit)
        plain = solve_plain(small.within(limit), 3, solver, 600.0)
        assert plain.proved
        assert plain.makespan == pytest.approx(ours.makespan, rel=1e-3)
