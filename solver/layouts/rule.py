"""One rule of legal layouts: when it can be judged, its reason, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solver.layouts.layout import Layout
from solver.layouts.setting import Setting

Broken = tuple[str, str] | None
"""The field to change and what is wrong, or None."""


@dataclass(frozen=True)
class Rule:
    """One rule. It can be judged as soon as the layout's fields in ``needs`` are known."""

    name: str
    reason: str
    needs: frozenset[str]
    judge: Callable[[Layout, Setting], Broken]


def rule(name: str, reason: str, needs: str, judge: Callable[[Layout, Setting], Broken]) -> Rule:
    """A rule; ``needs``: the names of the fields, one after another."""
    return Rule(name, reason, frozenset(needs.split()), judge)
