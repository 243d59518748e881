"""Turns whatever goes wrong in a request into a problem document."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.operations.logs import request_id
from service.problems import (
    MEDIA_TYPE,
    Problem,
    ProblemError,
    from_parameter_errors,
    from_stagecut_error,
    problem,
)
from solver.errors import StagecutError

_log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with a problem document."""
    app.add_exception_handler(ProblemError, _problem_error)
    app.add_exception_handler(StagecutError, _stagecut_error)
    app.add_exception_handler(RequestValidationError, _parameter_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


def response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """The problem as an HTTP response, with the id of its request."""
    known = problem.model_copy(update={"request_id": request_id.get()})
    return Response(
        known.to_json(), status_code=problem.status, headers=headers, media_type=MEDIA_TYPE
    )


async def _problem_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return response(error.problem, error.headers)


async def _stagecut_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, StagecutError)
    return response(from_stagecut_error(error))


async def _parameter_error(_request: Request, error: Exception) -> Response:
    """A path, query or header parameter that does not fit; bodies are validated in ``bodies``."""
    assert isinstance(error, RequestValidationError)
    return response(from_parameter_errors(error.errors()))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    phrase = HTTPStatus(error.status_code).phrase
    code = phrase.lower().replace(" ", "-")
    where = f"{request.method} {request.url.path[:200]}"
    detail = f"{where}: {error.detail}"
    hint = None
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"There is nothing at {where}."
        hint = "The API page (/docs) lists what there is."
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["allow"] = ", ".join(_methods_at(request))
        detail = f"{where} is not offered."
        hint = f"Allowed here: {headers['allow']}."
    return response(problem(error.status_code, code, phrase, detail, hint=hint), headers)


def _methods_at(request: Request) -> list[str]:
    """The methods that the API offers at the path of the request, in whatever route."""
    paths = request.app.openapi()["paths"]
    asked = request.url.path.split("/")
    found: set[str] = set()
    for path, operations in paths.items():
        steps = path.split("/")
        if len(steps) == len(asked) and all(
            step == given or step.startswith("{") for step, given in zip(steps, asked, strict=True)
        ):
            found |= {method.upper() for method in operations}
    return sorted(found)


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return response(
        problem(
            500,
            "internal-error",
            "The service failed",
            "The service met an error that it did not expect; it is in its log.",
            hint="Try again; report it if it happens again.",
        ),
        {"X-Request-ID": request_id.get() or ""},
    )
