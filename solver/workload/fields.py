"""Typed access to the fields of a foreign configuration, with errors that name the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solver.errors import BadRequest

LARGEST_SIZE = 1 << 24
"""Above any width, count or vocabulary of a real model: a larger size is a typing error."""

_ABSENT: Any = object()


class Fields:
    """Reads one JSON object whose place in the request is ``path``.

    A field that is absent or null takes its default; without a default it is an error. A name may
    be given with aliases, of which the first that is present counts.
    """

    def __init__(self, content: Mapping[str, Any], path: str) -> None:
        self._content = content
        self.path = path

    def __contains__(self, name: str) -> bool:
        return self._content.get(name) is not None

    def child(self, name: str) -> Fields:
        """The object under ``name``."""
        value = self._content.get(name)
        if not isinstance(value, Mapping):
            raise self.wrong(name, f"{name} must be an object, found {_kind(value)}.")
        return Fields(value, f"{self.path}.{name}")

    def integer(
        self,
        *names: str,
        default: int | None = _ABSENT,
        minimum: int = 1,
        maximum: int = LARGEST_SIZE,
    ) -> int:
        """An integer within ``minimum`` and ``maximum``."""
        name, value = self._find(names, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, f"{name} must be an integer, found {_kind(value)}.")
        if not minimum <= value <= maximum:
            raise self.wrong(
                name,
                f"{name} is {_short(value)}, outside {minimum} to {maximum}.",
                "Check the number; it is read as one count, not in thousands or bytes.",
            )
        return value

    def optional_integer(self, *names: str, minimum: int = 1) -> int | None:
        """An integer, or None where the field is absent or null."""
        if all(name not in self for name in names):
            return None
        return self.integer(*names, minimum=minimum)

    def fraction(self, name: str, default: float) -> float:
        """A number from 0 to 1."""
        name, value = self._find((name,), default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, f"{name} must be a number, found {_kind(value)}.")
        if not 0.0 <= value <= 1.0:
            raise self.wrong(name, f"{name} is {_short(value)}, outside 0 to 1.")
        return float(value)

    def boolean(self, name: str, default: bool) -> bool:
        """A boolean."""
        name, value = self._find((name,), default)
        if not isinstance(value, bool):
            raise self.wrong(name, f"{name} must be true or false, found {_kind(value)}.")
        return value

    def text(self, *names: str, default: str = _ABSENT) -> str:
        """A string."""
        name, value = self._find(names, default)
        if not isinstance(value, str):
            raise self.wrong(name, f"{name} must be a string, found {_kind(value)}.")
        return value

    def sequence(self, name: str) -> Sequence[Any] | None:
        """A list, or None where the field is absent or null."""
        value = self._content.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.wrong(name, f"{name} must be a list, found {_kind(value)}.")
        return value

    def wrong(self, name: str, detail: str, hint: str | None = None) -> BadRequest:
        """The error for one field."""
        return BadRequest(detail, field=f"{self.path}.{name}", hint=hint)

    def _find(self, names: Sequence[str], default: Any) -> tuple[str, Any]:
        for name in names:
            value = self._content.get(name)
            if value is not None:
                return name, value
        if default is _ABSENT:
            also = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
            raise self.wrong(
                names[0],
                f"{names[0]}{also} is missing.",
                "Copy it from the model's config.json.",
            )
        return names[0], default


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    for types, kind in (
        (bool, "a boolean"),
        (int | float, "a number"),
        (str, "a string"),
        (Mapping, "an object"),
    ):
        if isinstance(value, types):
            return f"{kind} ({_short(value)})" if kind != "an object" else kind
    return "a list"


def _short(value: object) -> str:
    # Huge integers are refused, not printed: Python itself refuses to print beyond 4,300 digits.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**18:
        return "an integer of more than 18 digits"
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
