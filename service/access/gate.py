"""The gate before every route: who asks, whether they may, and how often.

What is not listed as open is closed: a new route needs a key without anybody having to think of it.
"""

from __future__ import annotations

import ipaddress
import time
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote

from anyio import to_thread
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from service.access import keys
from service.access.caller import ANYBODY, Caller, Scope
from service.access.limits import Limits
from service.error_handlers import response
from service.problems import Problem, ProblemError, problem
from service.settings import Settings
from service.store import Store

if TYPE_CHECKING:
    from service.access.tokens import Tokens

COOKIE = "stagecut_key"
CALLER = "stagecut.caller"
SIGN_IN = "/sign-in"
_OPEN = ("/healthz", "/readyz", "/openapi.json", "/docs", "/redoc", SIGN_IN, "/sign-out")
_OPEN_FOLDERS = ("/static/", "/docs/assets/")
_BELIEVED_SECONDS = 2.0
_MOST_BELIEVED = 10_000


class Gate:
    """Lets through who may, with the caller noted in the connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = Limits()
        self._believed: dict[str, tuple[Caller | None, float]] = {}
        self._tokens: Tokens | None = None
        if settings.oidc_keys is not None:
            from service.access.tokens import Tokens  # its cryptography is large

            self._tokens = Tokens(settings)

    async def serve(self, app: ASGIApp, scope: Connection, receive: Receive, send: Send) -> None:
        """Have ``app`` serve one connection, if it may."""
        if scope["type"] == "http" and _has_null(scope):
            return await response(_null())(scope, receive, send)
        if scope["type"] != "http" or not _is_closed(scope, self._settings.access):
            scope[CALLER] = ANYBODY
            return await app(scope, receive, send)
        path: str = scope["path"]
        if path in _OPEN or path.startswith(_OPEN_FOLDERS):
            return await app(scope, receive, send)
        headers = Headers(scope=scope)
        try:
            scope[CALLER] = await self._admitted(scope, headers)
        except ProblemError as error:
            if error.problem.status == 401 and _is_page(scope, headers):
                return await RedirectResponse(f"{SIGN_IN}?next={quote(path)}", 303)(
                    scope, receive, send
                )
            return await response(error.problem, error.headers)(scope, receive, send)
        return await app(scope, receive, send)

    async def _admitted(self, scope: Connection, headers: Headers) -> Caller:
        token = token_in(headers)
        caller = await self.caller_of(scope["app"].state.store, token) if token else None
        if caller is None:
            raise _stranger(token)
        needed = _needed(scope["method"], scope["path"])
        if caller.scope < needed:
            raise _not_allowed(caller, needed)
        self._limits.count(caller)
        return caller

    async def caller_of(self, store: Store, token: str) -> Caller | None:
        """Whose key or token it is; believed for a moment, so that it need not be looked up."""
        now = time.monotonic()
        known, until = self._believed.get(token, (None, 0.0))
        if until > now:
            return known
        caller = await to_thread.run_sync(keys.caller_of, store, token, self._settings)
        if caller is None and self._tokens is not None and token.count(".") == 2:
            caller = await to_thread.run_sync(self._tokens.caller_of, token)
        if len(self._believed) >= _MOST_BELIEVED:
            self._believed.clear()
        self._believed[token] = (caller, now + _BELIEVED_SECONDS)
        return caller


class GateMiddleware:
    """Puts the application's gate before it."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await self._gate.serve(self._app, scope, receive, send)


def _has_null(scope: Connection) -> bool:
    """Whether the address has a null character, which no text in a database may have."""
    return "\0" in scope["path"] or b"%00" in scope["query_string"]


def _null() -> Problem:
    return problem(
        400,
        "bad-address",
        "The address cannot be read",
        "The address has a null character (%00).",
        hint="Leave it out.",
    )


def token_in(headers: Headers) -> str | None:
    """The key or token that comes with a request: in ``Authorization``, or in a page's cookie."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return cookie.value if cookie is not None and cookie.value else None


def _is_closed(scope: Connection, access: str) -> bool:
    """Whether a key is needed: by setting, or because the connection came from elsewhere."""
    if access != "auto":
        return access == "required"
    try:
        return not ipaddress.ip_address((scope.get("server") or ("",))[0]).is_loopback
    except ValueError:
        return False  # no address of a network: a socket in the file system, or a test


_FOR_ALL = ("/v1/clusters", "/v1/calibrations")
"""What is kept there means the same to every tenant."""


def _needed(method: str, path: str) -> Scope:
    if path == "/metrics":
        return Scope.ADMIN
    if method in ("GET", "HEAD", "OPTIONS"):
        return Scope.READ
    return Scope.ADMIN if path.startswith(_FOR_ALL) else Scope.PLAN


def _is_page(scope: Connection, headers: Headers) -> bool:
    wants_html = "text/html" in headers.get("accept", "")
    return scope["method"] == "GET" and wants_html and not scope["path"].startswith("/v1/")


def _stranger(token: str | None) -> ProblemError:
    detail = "This key is not known, or no longer good." if token else "A key is needed."
    return ProblemError(
        problem(
            401,
            "unauthorized",
            "Who asks is not known",
            detail,
            hint="Send the header `Authorization: Bearer KEY`; who runs this service makes keys"
            " with `stagecut keys create`.",
        ),
        {"WWW-Authenticate": "Bearer"},
    )


def _not_allowed(caller: Caller, needed: Scope) -> ProblemError:
    return ProblemError(
        problem(
            403,
            "forbidden",
            "The key does not allow this",
            f"This needs the scope {needed.word!r}; the key has {caller.scope.word!r}.",
            hint="Use another key.",
        )
    )
