"""What the pages are served with: read once, and kept by browsers as long as it stays the same."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Response

from service.pages.stylesheet import stylesheet

SHEET = "pages.css"
"""The name of the style sheet, which is made of several files."""

_MEDIA_TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_KEPT = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@router.get("/static/{name}")
def static_file(name: str) -> Response:
    """A file; its address changes with what is in it."""
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2])
    content = _content(name) if media_type and name in _names() else None
    if content is None:
        raise HTTPException(404)
    return Response(content, media_type=media_type, headers={"Cache-Control": _KEPT})


@cache
def address(name: str) -> str:
    """The address of a file; it changes with the file."""
    return f"/static/{name}?{sha256(_content(name)).hexdigest()[:12]}"


@cache
def script(name: str) -> str:
    """A script that stands in the page."""
    return _content(name).decode()


@cache
def permission(name: str) -> str:
    """What allows that script in a Content-Security-Policy."""
    return f"'sha256-{b64encode(sha256(_content(name)).digest()).decode()}'"


@cache
def _content(name: str) -> bytes:
    if name == SHEET:
        return stylesheet().encode()
    return files("service.pages").joinpath("static", name).read_bytes()


@cache
def _names() -> frozenset[str]:
    folder = files("service.pages").joinpath("static")
    return frozenset({SHEET} | {entry.name for entry in folder.iterdir()})
