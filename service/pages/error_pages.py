"""People who open an address that fails get a page; programs get the problem document."""

from __future__ import annotations

import inspect
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from service.pages import render
from service.problems import MEDIA_TYPE, Problem
from solver.errors import StagecutError

_API = "/v1/"
_PASSED_ON = ("allow", "retry-after", "x-request-id")


def install(app: FastAPI) -> None:
    """Put pages before the problem documents of what no route answers, or fails to."""
    for kind in (HTTPException, StagecutError, Exception):
        app.add_exception_handler(kind, _for_people(app.exception_handlers[kind]))


def _for_people(handler: Any) -> Any:
    async def handled(request: Request, error: Exception) -> Response:
        answer = handler(request, error)
        response: Response = await answer if inspect.isawaitable(answer) else answer
        return _page(response) if _reads_pages(request, response) else response

    return handled


def _reads_pages(request: Request, response: Response) -> bool:
    """Whether a browser was sent here to show what it finds."""
    return (
        response.media_type == MEDIA_TYPE
        and "text/html" in request.headers.get("accept", "")
        and not request.url.path.startswith(_API)
    )


def _page(response: Response) -> Response:
    found = Problem.model_validate_json(bytes(response.body))
    page = render.page("error.html", status_code=response.status_code, problem=found)
    for name in _PASSED_ON:
        if name in response.headers:
            page.headers[name] = response.headers[name]
    return page
