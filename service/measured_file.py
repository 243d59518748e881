"""Reading files of measured runs, one JSON object a line."""

from __future__ import annotations

from service.problems import ProblemError, problem
from service.reading import parse, validate
from solver.calibrate.measured import MOST_RUNS, MeasuredRun


def runs_in(text: bytes) -> list[MeasuredRun]:
    """The runs of a JSONL file; empty lines are passed over.

    Raises:
        ProblemError: A line is none; the problem names the line and the field.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not 1 <= len(lines) <= MOST_RUNS:
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The file does not fit",
                f"The file holds {len(lines)} runs.",
                hint=f"Give from 1 to {MOST_RUNS}, one JSON object a line.",
            )
        )
    return [_run(number, line) for number, line in lines]


def _run(number: int, line: bytes) -> MeasuredRun:
    try:
        return validate(MeasuredRun, parse(line))
    except ProblemError as error:
        part = error.problem.parts[0]
        raise ProblemError(
            problem(
                error.problem.status,
                "bad-run",
                "A run does not fit",
                f"Line {number}: {part.detail}",
                field=f"line {number}: {part.field}" if part.field else f"line {number}",
                hint=part.hint,
            )
        ) from None
