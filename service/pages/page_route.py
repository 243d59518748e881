"""Routes whose problems are pages too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from service.pages import render
from service.problems import Problem, ProblemError, problem


class PageRoute(APIRoute):
    """A route that answers a problem with a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with problems turned into pages."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except ProblemError as error:
                return _page(error.problem)
            except RequestValidationError as error:
                return _page(_described(error))

        return handled


def _page(found: Problem) -> Response:
    return render.page("error.html", status_code=found.status, problem=found)


def _described(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"][1:])
    return problem(422, "bad-request", "The address does not fit", f"{where}: {first['msg']}.")
