"""Slurm's host lists: ``gpu[001-008,012],login1`` is ten names."""

from __future__ import annotations

import itertools
import re

MOST_HOSTS = 65_536
"""Names that one list may stand for; Slurm itself ends there (MAX_SLURM_NODES is of that order)."""

_PART = re.compile(r"\[([^\[\]]*)\]")


def hosts(text: str) -> list[str]:
    """The names in their order.

    Raises:
        ValueError: Brackets or ranges that cannot be read, or too many names.
    """
    found: list[str] = []
    for item in _items(text):
        found.extend(_expanded(item))
        if len(found) > MOST_HOSTS:
            raise ValueError(f"more than {MOST_HOSTS} names")
    return found


def _items(text: str) -> list[str]:
    """The parts between commas that stand outside of brackets."""
    items, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError(f"brackets do not match in {text[:60]!r}")
        if letter == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
    if depth:
        raise ValueError(f"brackets do not match in {text[:60]!r}")
    items.append(text[start:])
    stripped = [item.strip() for item in items]
    if not all(stripped):
        raise ValueError(f"an empty name in {text[:60]!r}")
    return stripped


def _expanded(item: str) -> list[str]:
    pieces = _PART.split(item)
    choices = [[piece] if number % 2 == 0 else _range(piece) for number, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_HOSTS:
        raise ValueError(f"more than {MOST_HOSTS} names in {item[:60]!r}")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _range(text: str) -> list[str]:
    """``001-003,7`` as its numbers, leading zeros kept."""
    numbers: list[str] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        high = high if dash else low
        if not (low.isdecimal() and high.isdecimal()) or int(low) > int(high):
            raise ValueError(f"{part[:40]!r} is no range of numbers")
        if int(high) - int(low) >= MOST_HOSTS:
            raise ValueError(f"more than {MOST_HOSTS} names in {part[:40]!r}")
        numbers.extend(f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1))
    return numbers
