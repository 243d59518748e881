"""Carrying plans from one store to another, as a file of JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from pydantic import BaseModel, ConfigDict, ValidationError

from service.problems import ProblemError, json_path, problem
from service.store import Store, lines
from solver.plan import Plan
from solver.request import PlanRequest

_AT_A_TIME = 200


class _Line(BaseModel):
    """A finished plan with its request."""

    model_config = ConfigDict(extra="forbid")

    id: str
    status: str
    solver_version: str
    model: str
    device: str | None
    devices: int | None
    iteration_seconds: float | None
    gap: float | None
    created_at: float
    finished_at: float | None
    request: PlanRequest
    answer: Plan


def export(store: Store, file: TextIO) -> int:
    """Write a line for every finished plan; how many."""
    count = 0
    with store.reading() as session:
        for line in lines.exported(session):
            file.write(line + "\n")
            count += 1
    return count


def import_lines(store: Store, given: Iterable[bytes]) -> tuple[int, int]:
    """Store the plans of the lines that are not there yet; how many were new, and how many not.

    All lines are looked at before anything is stored.

    Raises:
        ProblemError: A line is none; its number is named (422).
    """
    found = [_read(line, number) for number, line in enumerate(given, 1) if line.strip()]
    new = 0
    for start in range(0, len(found), _AT_A_TIME):
        with store.writing() as session:
            for fields in found[start : start + _AT_A_TIME]:
                new += lines.add_if_new(session, lines.row_of(fields))
    return new, len(found) - new


def _read(text: bytes, number: int) -> dict[str, object]:
    from service.reading import parse

    try:
        fields = parse(text)
        line = _Line.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise _bad(number, json_path(first["loc"]), first["msg"]) from None
    except ProblemError as error:
        raise _bad(number, "", error.problem.detail) from None
    if line.answer.id != line.id:
        raise _bad(number, "answer.id", "The answer is another plan's")
    assert isinstance(fields, dict)
    return dict(fields)


def _bad(number: int, field: str, detail: str) -> ProblemError:
    where = f"line {number}: {field}" if field else f"line {number}"
    return ProblemError(
        problem(
            422,
            "bad-request",
            "This is no line of a store",
            f"{detail.removesuffix('.')}.",
            field=where,
            hint="Give a file that `stagecut store export` wrote.",
        )
    )
