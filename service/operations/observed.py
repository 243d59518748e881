"""Around every request: its id, its time, a line in the log, and its place in the metrics."""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.operations.logs import request_id
from service.operations.metrics import HTTP_REQUESTS, HTTP_SECONDS

_HEADER = b"x-request-id"
_FITTING = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_QUIET = ("/healthz", "/readyz", "/metrics", "/static", "/docs/assets")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_log = logging.getLogger(__name__)


class Observed:
    """Gives every request an id, the caller's own if it fits, and notes how it went."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        identity = _given(scope) or uuid.uuid4().hex
        request_id.set(identity)
        began, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (_HEADER, identity.encode())]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            _note(scope, status, time.perf_counter() - began)


def _note(scope: Scope, status: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", None) or "(none)"
    method = scope["method"] if scope["method"] in _METHODS else "(other)"
    HTTP_REQUESTS.labels(method, route, status).inc()
    HTTP_SECONDS.labels(route).observe(seconds)
    if not scope["path"].startswith(_QUIET) and _log.isEnabledFor(logging.INFO):
        _log.info(
            "%s %s %s",
            method,
            route if route != "(none)" else repr(scope["path"][:200]),
            status,
            extra={"milliseconds": round(seconds * 1e3, 2)},
        )


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _HEADER:
            text: str = value.decode("latin-1")
            return text if _FITTING.fullmatch(text) else None
    return None
