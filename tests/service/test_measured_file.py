"""Files of measured runs: what is read, and how a bad line is told."""

from __future__ import annotations

import json

import pytest

from service.measured_file import runs_in
from service.problems import ProblemError
from tests.solver.calibrate.samples import request

GOOD = json.dumps({"request": request(2, 4096, 1), "measured": {"iteration_seconds": 1.0}})


def test_empty_lines_are_passed_over() -> None:
    assert len(runs_in(f"{GOOD}\n\n{GOOD}\n".encode())) == 2


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", "line 2"),
        (GOOD.replace("1.0}", '"fast"}'), "line 2: measured.iteration_seconds"),
        (GOOD.replace("tensor_parallel", "tensors"), "line 2: request.layout.tensors"),
    ],
)
def test_a_bad_line_is_named_with_its_field(line: str, field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        runs_in(f"{GOOD}\n{line}\n".encode())
    assert refused.value.problem.field == field


def test_a_file_without_runs_is_refused() -> None:
    with pytest.raises(ProblemError):
        runs_in(b"\n")
