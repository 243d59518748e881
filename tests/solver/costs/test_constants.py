"""No efficiency is a bare number in code: fractions stand in data files, with their sources.

Whole numbers in code count something: bytes of an element, passes over a tensor, FLOPs of a
product. A fraction is either a half, or the value of a constant with a name and a docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import solver

ROOT = Path(solver.__file__).parent
FILES = sorted(path for room in ("costs", "memory") for path in (ROOT / room).rglob("*.py"))
LARGEST_COUNT = 64
"""Bytes per parameter or element, and passes over it, are fewer."""


def _named(tree: ast.Module) -> Iterator[ast.AST]:
    """Values of constants of the module that a docstring, theirs or the module's, explains."""
    explained = ast.get_docstring(tree) is not None
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and explained:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if all(isinstance(one, ast.Name) and one.id.isupper() for one in targets):
                yield from ast.walk(node.value)


def bare_fractions(text: str) -> list[tuple[int, float]]:
    """Lines and values of the numbers that are neither counts nor named."""
    tree = ast.parse(text)
    named = set(map(id, _named(tree)))
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and id(node) not in named
        and node.value != 0.5
        and not (node.value.is_integer() and abs(node.value) <= LARGEST_COUNT)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_efficiency_is_a_bare_number(path: Path) -> None:
    assert bare_fractions(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("rate = 0.85 * peak", [(1, 0.85)]),
        ("def seconds(size):\n    return size / 1.3e12", [(2, 1.3e12)]),
        ("def passes(size):\n    return 2.0 * size + 30.0", []),
        ("SHARE = 0.9", [(1, 0.9)]),
        ('"""Why, and from where."""\nSHARE = 0.9', []),
    ],
)
def test_a_bare_number_is_found(text: str, found: list[tuple[int, float]]) -> None:
    assert bare_fractions(text) == found
