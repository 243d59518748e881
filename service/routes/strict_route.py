"""Routes of the API, which take no parameter that they do not know."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import Request, Response
from fastapi.params import Query
from fastapi.routing import APIRoute

from service.problems import ProblemError, problem


class StrictRoute(APIRoute):
    """A route that refuses misspelt query parameters: left unheard, they change the answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind a look at the names of the parameters."""
        handler = super().get_route_handler()
        described = (self.openapi_extra or {}).get("parameters", [])
        read = {each["name"] for each in described if each["in"] == "query"}
        known = sorted(_declared(self.endpoint) | read)

        async def handled(request: Request) -> Response:
            if request.scope["query_string"]:
                for name in request.query_params:
                    if name not in known:
                        raise _unknown(name[:100], known)
            return await handler(request)

        return handled


def _declared(endpoint: Callable[..., Any]) -> set[str]:
    """The parameters that FastAPI reads for ``endpoint``: those that are annotated with a query."""
    return {
        part.alias or name
        for name, hint in get_type_hints(endpoint, include_extras=True).items()
        if get_origin(hint) is Annotated
        for part in get_args(hint)
        if isinstance(part, Query)
    }


def _unknown(name: str, known: list[str]) -> ProblemError:
    close = difflib.get_close_matches(name, known, n=1)
    hint = "Remove it."
    if close:
        hint = f"Did you mean {close[0]}?"
    elif known:
        hint = f"Remove it; the parameters here are {', '.join(known)}."
    return ProblemError(
        problem(
            422,
            "bad-request",
            "A parameter does not fit",
            "There is no such parameter.",
            field=name,
            hint=hint,
        )
    )
