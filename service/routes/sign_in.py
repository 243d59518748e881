"""Signing in with a key, so that a browser can show it with every request."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from service.access.gate import COOKIE, Gate, token_in
from service.pages import render
from service.pages.origin import refuse_foreign_forms
from service.pages.page_route import PageRoute

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_LONGEST_FORM = 8 * 2**10


@router.get("/sign-in")
async def form(request: Request, next: str = "/") -> Response:
    """The form; for whom one is signed in."""
    token = token_in(request.headers)
    caller = await _gate(request).caller_of(request.app.state.store, token) if token else None
    return _page(next, tenant=caller.tenant if caller else None)


@router.post("/sign-in", dependencies=[Depends(refuse_foreign_forms)])
async def sign_in(request: Request) -> Response:
    """Keep the key in a cookie that scripts cannot read and other sites cannot send."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_FORM:
            return _page("/", refused=True)
    fields = parse_qs(body.decode("utf-8", "replace"))
    key, target = fields.get("key", [""])[0].strip(), fields.get("next", ["/"])[0]
    if not key or await _gate(request).caller_of(request.app.state.store, key) is None:
        return _page(target, refused=True)
    answer = RedirectResponse(_local(target), status_code=303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=secure, path="/")
    return answer


@router.post("/sign-out", dependencies=[Depends(refuse_foreign_forms)])
async def sign_out() -> Response:
    """Forget the key."""
    answer = RedirectResponse("/sign-in", status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", path="/")
    return answer


def _page(target: str, *, tenant: str | None = None, refused: bool = False) -> Response:
    status = 401 if refused else 200
    return render.page(
        "sign_in.html", status_code=status, next=_local(target), tenant=tenant, refused=refused
    )


def _local(target: str) -> str:
    """An address on this site: a path, and nothing that browsers take for another host."""
    is_path = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if is_path and target.isprintable() and "\\" not in target else "/"


def _gate(request: Request) -> Gate:
    gate: Gate = request.app.state.gate
    return gate
