"""Templates to HTML, under a policy that lets nothing in from anywhere else."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from datetime import UTC, datetime
from functools import cache
from threading import Lock
from typing import Any

from fastapi.responses import HTMLResponse, Response, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from service.console.quantities import duration, percent, size, times
from service.pages import assets, words
from service.pages.pictures.svg import Drawing, key
from service.version import VERSION

_FIRST = "first.js"

POLICY = (
    f"default-src 'none'; style-src 'self'; script-src 'self' {assets.permission(_FIRST)};"
    " img-src 'self' data: blob:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of every page."""

_FLUSH = "<!-- more -->"
_MOST_KEPT = 64
_kept: dict[tuple[str, Hashable], str] = {}
_keeping = Lock()
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page(template: str, status_code: int = 200, **context: Any) -> HTMLResponse:
    """The page of a template."""
    return respond(html(template, **context), status_code)


def respond(text: str, status_code: int = 200) -> HTMLResponse:
    """The text of a page under the policy."""
    return HTMLResponse(text, status_code=status_code, headers=_HEADERS)


def html(template: str, **context: Any) -> str:
    """The text of a template."""
    return _environment().get_template(template).render(context)


def streamed(template: str, key: Hashable, context: dict[str, Any]) -> Response:
    """The page of a template, sent up to every mark as soon as it is there.

    ``key`` says what the page depends on besides the template; a page of an equal key is kept.
    """
    kept = _kept.get((template, key))
    if kept is not None:
        return respond(kept)
    pieces = _pieces(template, key, context)
    return StreamingResponse(pieces, headers=_HEADERS, media_type="text/html")


def _pieces(template: str, key: Hashable, context: dict[str, Any]) -> Iterator[str]:
    sent: list[str] = []
    waiting: list[str] = []
    for piece in _environment().get_template(template).generate(context):
        waiting.append(piece)
        if piece.endswith(_FLUSH):
            sent.append("".join(waiting))  # joined, not added: a Markup would escape what is added
            waiting.clear()
            yield sent[-1]
    sent.append("".join(waiting))
    yield sent[-1]
    with _keeping:
        while len(_kept) >= _MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[template, key] = "".join(sent)


def prepare() -> None:
    """Compile every template now, so that no reader waits for it."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        duration=duration,
        size=size,
        percent=percent,
        times=times,
        gap=words.gap,
        change=words.change,
        count=lambda number: f"{number:,.0f}",
        moment=_moment,
        sign=key,
        drawn=_drawn,
    )
    environment.globals.update(
        version=VERSION,
        flush=Markup(_FLUSH),
        asset=assets.address,
        sheet=assets.SHEET,
        first_script=Markup(assets.script(_FIRST)),
    )
    return environment


def _drawn(drawing: Drawing, *, scripted: bool = False) -> Markup:
    return Markup(drawing.inline(scripted=scripted)) if isinstance(drawing, Drawing) else Markup("")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
