"""The guides of ``docs/guides`` as pages."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from fastapi.responses import HTMLResponse
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

import solver
from service.pages import render

_FOLDERS = (  # in the source tree, or where the installed package has its data
    Path(solver.__file__).parents[1] / "docs" / "guides",
    Path(sys.prefix) / "share" / "stagecut" / "guides",
)

_READ_FIRST = ("first-plan", "reading-a-plan", "scheduler", "ci")


@dataclass(frozen=True)
class Guide:
    """One guide: its address, its title, its first paragraph, and its text as HTML."""

    name: str
    title: str
    summary: str
    body: Markup


@cache
def guides() -> dict[str, Guide]:
    """All guides by name, in the order in which they are best read."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    if folder is None:
        return {}
    found = [_guide(path) for path in sorted(folder.glob("*.md"), key=_place)]
    return {guide.name: guide for guide in found}


def index() -> HTMLResponse:
    """The list of guides."""
    return render.page("guides.html", guides=list(guides().values()))


def page(name: str) -> HTMLResponse | None:
    """One guide; None if there is none of that name."""
    guide = guides().get(name)
    if guide is None:
        return None
    return render.page("guide.html", guide=guide, guides=list(guides().values()))


def _place(path: Path) -> tuple[int, str]:
    name = path.stem
    return (_READ_FIRST.index(name) if name in _READ_FIRST else len(_READ_FIRST), name)


def _guide(path: Path) -> Guide:
    text = path.read_text("utf-8")
    said = MarkdownIt("commonmark").parse(text)
    return Guide(
        name=path.stem,
        title=_first(said, "heading_open") or path.stem,
        summary=_first(said, "paragraph_open"),
        body=Markup(_rendered(text, {other.stem for other in path.parent.glob("*.md")})),
    )


def _first(tokens: list[Token], kind: str) -> str:
    """The words of the first heading or paragraph, without marks."""
    for opened, inline in pairwise(tokens):
        if opened.type == kind:
            parts = [
                " " if part.type == "softbreak" else part.content for part in inline.children or []
            ]
            return "".join(parts)
    return ""


def _rendered(text: str, names: set[str]) -> str:
    """Markdown as HTML; links lead to other guides, and what stands elsewhere is named only."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    _label_cells(tokens)
    for token in tokens:
        children = [child for child in token.children or [] if child.type != "image"]
        for child in children:
            if child.type == "link_open":
                _lead(child, names)
        token.children = children if token.children is not None else None
    html = str(markdown.renderer.render(tokens, markdown.options, {}))
    # What may scroll can be reached by keyboard.
    return html.replace("<pre>", '<pre tabindex="0">').replace("<table>", '<table tabindex="0">')


def _label_cells(tokens: list[Token]) -> None:
    """Every cell of a table gets the name of its column, which a phone shows before it."""
    columns: list[str] = []
    place = 0
    for opened, inline in pairwise(tokens):
        if opened.type == "thead_open":
            columns = []
        elif opened.type == "tr_open":
            place = 0
        elif opened.type == "th_open":
            columns.append("".join(part.content for part in inline.children or []))
        elif opened.type == "td_open":
            if columns[place]:
                opened.attrSet("data-label", columns[place])
            place += 1


def _lead(link: Token, names: set[str]) -> None:
    target, _, place = str(link.attrs["href"]).partition("#")
    name = target.removesuffix(".md")
    if not target or name in names:
        anchor = f"#{place}" if place else ""
        link.attrs["href"] = f"/guides/{name}{anchor}" if target else anchor
    else:
        link.attrs = {"class": "elsewhere"}
