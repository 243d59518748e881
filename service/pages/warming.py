"""What is slow only once is done before the first reader comes."""

from __future__ import annotations

import logging

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import Message

from service.access.caller import ANYBODY
from service.access.gate import CALLER

_log = logging.getLogger(__name__)
_ADDRESSES = ("/", "/plans/unknown", "/batches", "/capacity")


async def warm(app: FastAPI) -> None:
    """Ask the running application for pages, behind its gate and uncounted.

    Routes are resolved, queries compiled and connections opened by this: with it the first page of
    a process takes as long as any other.
    """
    pages = AsyncExitStackMiddleware(app.router)
    for address in _ADDRESSES:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": address,
            "raw_path": address.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "client": None,
            "server": None,
            "app": app,
            CALLER: ANYBODY,
        }
        try:
            await pages(scope, _nothing_more, _unheard)
        except SQLAlchemyError as error:  # the store is away; readiness says so
            _log.info("pages could not be warmed: %s", error)
            return


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def _unheard(_message: Message) -> None:
    pass
