"""On what terms a request asks for a plan: its query's `priority` and `deadline`."""

from __future__ import annotations

import time
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.jobs.terms import USUAL, Priority, Terms
from service.problems import ProblemError, from_validation_error

_YEAR_SECONDS = 366 * 86_400.0


class _Query(BaseModel):
    """The parameters; any others are none of ours."""

    model_config = ConfigDict(extra="ignore")

    priority: Priority = Field(
        default=Priority.INTERACTIVE,
        description="`interactive` goes before `batch` when there is more to solve than hands.",
    )
    deadline: float | None = Field(
        default=None,
        gt=0,
        le=_YEAR_SECONDS,
        allow_inf_nan=False,
        description="Seconds from now after which the plan is of no use: if there is none by then,"
        " the solve fails with `deadline-passed`.",
    )


def terms_in(request: Request) -> Terms:
    """The terms in the query.

    Raises:
        ProblemError: A parameter does not fit (422).
    """
    if not request.scope["query_string"]:
        return USUAL
    given = dict(request.query_params)
    try:
        query = _Query.model_validate(given)
    except ValidationError as error:
        raise ProblemError(from_validation_error(error, given, _Query)) from None
    deadline_at = None if query.deadline is None else time.time() + query.deadline
    return Terms(query.priority, deadline_at)


def _parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    description = _Query.model_fields[name].description
    return {
        "name": name,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": description,
    }


TERMS = [
    _parameter("priority", {"type": "string", "enum": list(Priority), "default": "interactive"}),
    _parameter("deadline", {"type": "number", "exclusiveMinimum": 0, "maximum": _YEAR_SECONDS}),
]
"""How the API page describes them."""
