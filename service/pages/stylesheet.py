"""The one style sheet of the pages: what they use of Pico CSS, and Stagecut's own layers over it.

A browser shows nothing before it has every sheet, and what it then spends on a page grows with the
rules and custom properties that might apply to its elements; the whole of Pico doubles both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_OWN = ("pictures.css", "stagecut.css")
_FOR_EVERY_ELEMENT = {"::before", "::after"}  # browsers then style two boxes more for each
_WRITTEN_BY_GUIDES = "h4 h5 h6 blockquote hr ol em img del"
_STRING_OR_BRACE = re.compile(r"\"[^\"]*\"|'[^']*'|/\*.*?\*/|[{}]", re.DOTALL)
_WORD = re.compile(r"-?[A-Za-z_][\w-]*")
_CONDITIONAL = ("@media", "@supports")
_PROPERTY = re.compile(r"(--[\w-]+):(?:\"[^\"]*\"|[^;\"])*(?:;|$)")
_KIND = re.compile(r"\[(type|role)=([\w-]+)\]")
_KIND_WRITTEN = re.compile(r"\b(type|role)\s?=\s?\"([\w-]+)\"")
_USED_PROPERTY = re.compile(r"var\(\s*(--[\w-]+)")


@cache
def stylesheet() -> str:
    """The style sheet of every page."""
    own = squeezed("\n".join(sheet_text(name) for name in _OWN))
    return without_unused_properties(trimmed(sheet_text("pico.min.css"), _words()) + own)


def sheet_text(name: str) -> str:
    """The text of one of the files that the style sheet is made of."""
    return files("service.pages").joinpath("static", name).read_text("utf-8")


def trimmed(sheet: str, words: frozenset[str]) -> str:
    """The rules of a sheet that can apply where only these names are used.

    Rules for the generated boxes of every element are left out.
    """
    kept = []
    for prelude, body in _blocks(sheet):
        if prelude.startswith(_CONDITIONAL):
            inner = trimmed(body, words)
            if inner:
                kept.append(f"{prelude}{{{inner}}}")
        elif prelude.startswith("@"):
            if prelude.split()[-1] in words:  # an animation by its name
                kept.append(f"{prelude}{{{body}}}")
        else:
            selectors = [
                one
                for one in selectors_of(prelude)
                if one not in _FOR_EVERY_ELEMENT and may_apply(one, words)
            ]
            if selectors:
                kept.append(f"{','.join(selectors)}{{{body}}}")
    return "".join(kept)


def left_out() -> list[str]:
    """The selectors of Pico CSS that the pages are served without."""
    kept = frozenset(_selectors(trimmed(sheet_text("pico.min.css"), _words())))
    return [one for one in _selectors(sheet_text("pico.min.css")) if one not in kept]


def may_apply(selector: str, words: frozenset[str]) -> bool:
    """Whether a selector can match where only these names are used.

    What stands in parentheses is not looked at, so the answer errs towards yes.
    """
    outside, depth = [], 0
    for character in selector:
        depth += character == "("
        if depth == 0:
            outside.append(character)
        depth -= character == ")"
    plain = re.sub(r"::?[\w-]+", " ", "".join(outside))
    kinds = {f"{name}={value}" for name, value in _KIND.findall(plain)}
    names = _WORD.findall(_KIND.sub(" ", plain))
    return ":host" not in selector and words.issuperset(names) and words.issuperset(kinds)


def selectors_of(prelude: str) -> Iterator[str]:
    """The selectors of a list, which commas divide outside of parentheses."""
    start = depth = 0
    for place, character in enumerate(prelude):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield prelude[start:place].strip()
            start = place + 1
    yield prelude[start:].strip()


def without_unused_properties(sheet: str) -> str:
    """The sheet without the custom properties that nothing in it refers to."""
    while True:
        used = frozenset(_USED_PROPERTY.findall(sheet))
        fewer = _pruned(sheet, used)
        if fewer == sheet:
            return sheet
        sheet = fewer


def squeezed(sheet: str) -> str:
    """The sheet without comments and needless space."""
    plain = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    return re.sub(r"\s*([{};,])\s*", r"\1", re.sub(r"\s+", " ", plain)).strip()


def _pruned(sheet: str, used: frozenset[str]) -> str:
    kept = []
    for prelude, body in _blocks(sheet):
        if prelude.startswith(_CONDITIONAL):
            inside = _pruned(body, used)
        elif prelude.startswith("@"):
            inside = body
        else:
            inside = _PROPERTY.sub(lambda at: at[0] if at[1] in used else "", body)
        if inside:
            kept.append(f"{prelude}{{{inside}}}")
    return "".join(kept)


def _blocks(sheet: str) -> Iterator[tuple[str, str]]:
    """What stands before and between the braces of each rule, outermost rules only."""
    start = opened = depth = 0
    for found in _STRING_OR_BRACE.finditer(sheet):
        if found[0] == "{":
            if depth == 0:
                opened = found.start()
            depth += 1
        elif found[0] == "}":
            depth -= 1
            if depth == 0:
                prelude = re.sub(r"/\*.*?\*/", "", sheet[start:opened], flags=re.DOTALL)
                yield prelude.rpartition(";")[2].strip(), sheet[opened + 1 : found.start()]
                start = found.end()


def _selectors(sheet: str) -> Iterator[str]:
    for prelude, body in _blocks(sheet):
        if prelude.startswith(_CONDITIONAL):
            yield from _selectors(body)
        elif not prelude.startswith("@"):
            yield from selectors_of(prelude)


def _words() -> frozenset[str]:
    """Every word of the templates and scripts, the names of elements and classes among them.

    Types and roles are told apart from other words: ``type=checkbox``.
    """
    pages = files("service.pages")
    templates = pages.joinpath("templates")
    texts = [_WRITTEN_BY_GUIDES]
    for folder, suffix in (
        (templates, ".html"),
        (templates.joinpath("parts"), ".html"),
        (pages.joinpath("static"), ".js"),
    ):
        texts += [
            entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(suffix)
        ]
    text = " ".join(texts)
    kinds = {f"{name}={value}" for name, value in _KIND_WRITTEN.findall(text)}
    return frozenset(_WORD.findall(text)) | kinds
