"""A batch as JSON lines: a case on each, problems by number of the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from service import reading
from service.batches import refusals
from service.batches.documents import MOST_CASES, BatchCase, BatchRequest
from service.problems import FieldProblem, ProblemError, problem

_CASE = re.compile(r"^cases\[(\d+)\]\.?(.*)$", re.DOTALL)


@dataclass(frozen=True)
class Lines:
    """A batch and, for each of its cases, the line on which it stands, counted from 1."""

    batch: BatchRequest
    numbers: tuple[int, ...]

    def named(self, error: ProblemError) -> ProblemError:
        """The same problem with its fields given by line."""
        found = [self._named(part) for part in error.problem.parts]
        return _several(found) if any(part.field for part in found) else error

    def _named(self, part: FieldProblem) -> FieldProblem:
        place = _CASE.match(part.field or "")
        if place is None:
            return part
        line = self.numbers[int(place.group(1))]
        return part.model_copy(update={"field": _place(line, place.group(2))})


def read_lines(text: bytes, name: str, against: str | None = None) -> Lines:
    """The batch in ``text``; blank lines are passed over.

    Raises:
        ProblemError: Lines are not JSON, or not cases; all of them are named.
    """
    cases: list[BatchCase] = []
    numbers: list[int] = []
    bad: list[FieldProblem] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            numbers.append(number)
            _read(line, number, cases.append, bad)
    if not numbers or len(numbers) > MOST_CASES:
        detail = f"There are {len(numbers):,} lines; a batch has 1 to {MOST_CASES:,}."
        raise ProblemError(problem(422, "bad-request", "This is not a batch", detail))
    if bad:
        raise _several(bad)
    lines = Lines(BatchRequest(name=name, cases=cases, against=against), tuple(numbers))
    try:
        refusals.refuse(refusals.of_names(lines.batch))
    except ProblemError as error:
        raise lines.named(error) from None
    return lines


def _read(
    line: bytes, number: int, keep: Callable[[BatchCase], None], bad: list[FieldProblem]
) -> None:
    try:
        keep(reading.validate(BatchCase, reading.parse(line)))
    except ProblemError as error:
        bad += [
            part.model_copy(update={"field": _place(number, part.field or "")})
            for part in error.problem.parts
        ]


def _place(line: int, field: str) -> str:
    return f"line {line}: {field}" if field else f"line {line}"


def _several(found: list[FieldProblem]) -> ProblemError:
    try:
        refusals.refuse(found)
    except ProblemError as error:
        return error
    raise AssertionError("nothing was found")
