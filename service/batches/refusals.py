"""Why a batch is not taken: the fields at fault of every case, before anything runs."""

from __future__ import annotations

from collections.abc import Collection

from service.batches.documents import BatchRequest
from service.problems import TYPE_PREFIX, FieldProblem, Problem, ProblemError
from solver.errors import BadRequest


def refuse(found: list[FieldProblem]) -> None:
    """Refuse the batch if anything was found.

    Raises:
        ProblemError: Something was (422).
    """
    if found:
        raise ProblemError(
            Problem(
                type=TYPE_PREFIX + BadRequest.code,
                title=BadRequest.title,
                status=422,
                detail=found[0].detail,
                field=found[0].field,
                hint=found[0].hint,
                errors=found if len(found) > 1 else [],
            )
        )


def within(number: int, part: FieldProblem) -> FieldProblem:
    """A problem of the request of the case of that number, seen from the batch."""
    below = f".{part.field}" if part.field else ""
    return part.model_copy(update={"field": f"cases[{number}].request{below}"})


def of_names(asked: BatchRequest) -> list[FieldProblem]:
    """Names that two cases share."""
    seen: set[str] = set()
    found = []
    for number, name in enumerate(asked.names()):
        if name in seen:
            detail = f"There are two cases of the name {name!r}."
            hint = "Give each a name of its own, or none."
            found.append(FieldProblem(field=f"cases[{number}].name", detail=detail, hint=hint))
        seen.add(name)
    return found


def of_references(asked: BatchRequest, known: Collection[str]) -> list[FieldProblem]:
    """Plans to compare with that are not ``known`` to be finished with a time."""
    return [
        FieldProblem(
            field=f"cases[{number}].expectations.max_slowdown_against",
            detail=f"There is no finished plan {case.expectations.max_slowdown_against!r}.",
            hint="Ask for that plan first, and wait until it has succeeded.",
        )
        for number, case in enumerate(asked.cases)
        if case.expectations.max_slowdown_against not in (None, *known)
    ]


def of_earlier(asked: BatchRequest, *, known: bool) -> list[FieldProblem]:
    """An earlier batch that is not ``known``."""
    if asked.against is None or known:
        return []
    detail = f"There is no batch {asked.against!r}."
    return [FieldProblem(field="against", detail=detail, hint="Leave it out, or name another.")]
