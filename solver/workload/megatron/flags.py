"""Typed access to command-line flags, with errors that name the flag.

Flags come as a mapping (flag to value; true for a switch) or as one command-line string. Which of
them were read is remembered, so that the rest can be listed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from solver.errors import BadRequest
from solver.workload.fields import LARGEST_SIZE

FIELD = "model.megatron_args"

_FLAG = re.compile(r"--[A-Za-z][\w-]*")
_MOST_FLAGS = 2000
_LONGEST = 20_000


class Flags:
    """The flags of one command line. A flag that is absent, null or false takes its default."""

    def __init__(self, values: Mapping[str, list[str]], switches: Collection[str]) -> None:
        self._values = dict(values)
        self._switches = set(switches)
        self._read: set[str] = set()

    def __contains__(self, flag: str) -> bool:
        return flag in self._values or flag in self._switches

    def names(self) -> list[str]:
        """All flags, in their order, switches last."""
        return [*self._values, *sorted(self._switches)]

    def values(self, flag: str) -> list[str] | None:
        """A flag's words as they are, without counting as read; None for a switch."""
        return self._values.get(flag)

    def switch(self, flag: str) -> bool:
        """Whether a flag without a value is there."""
        self._read.add(flag)
        if flag in self._values:
            raise wrong(flag, f"{flag} takes no value, found {_shown(self._values[flag])}.")
        return flag in self._switches

    def integer(self, flag: str, default: int, minimum: int = 1) -> int:
        """A whole number from ``minimum`` up."""
        found = self.optional_integer(flag, minimum)
        return default if found is None else found

    def required_integer(self, flag: str) -> int:
        """A whole number from 1 up that must be there."""
        found = self.optional_integer(flag)
        if found is None:
            raise wrong(flag, f"{flag} is missing.", "Copy it from the launch script.")
        return found

    def optional_integer(self, flag: str, minimum: int = 1) -> int | None:
        """A whole number, or None where the flag is absent."""
        text = self.text(flag)
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise wrong(flag, f"{flag} must be a whole number, found {_shown(text)}.")
        number = int(text)
        if not minimum <= number <= LARGEST_SIZE:
            raise wrong(flag, f"{flag} is {number}, outside {minimum} to {LARGEST_SIZE}.")
        return number

    def fraction(self, flag: str, default: float) -> float:
        """A number from 0 to 1."""
        text = self.text(flag)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            raise wrong(flag, f"{flag} must be a number, found {_shown(text)}.") from None
        if not 0.0 <= number <= 1.0:
            raise wrong(flag, f"{flag} is {_shown(text)}, outside 0 to 1.")
        return number

    def text(self, flag: str) -> str | None:
        """The flag's one value, or None where it is absent."""
        words = self.words(flag)
        if words is None:
            return None
        if len(words) != 1:
            raise wrong(flag, f"{flag} takes one value, found {_shown(words)}.")
        return words[0]

    def choice(self, flag: str, known: Mapping[str, Any], default: Any) -> Any:
        """The meaning of the flag's value, one of those that ``known`` gives a meaning."""
        text = self.text(flag)
        if text is None:
            return default
        if text not in known:
            raise wrong(flag, f"{flag} {_shown(text)} is not known.", f"Known: {', '.join(known)}.")
        return known[text]

    def words(self, flag: str) -> list[str] | None:
        """All values of the flag, or None where it is absent."""
        self._read.add(flag)
        if flag in self._switches:
            raise wrong(flag, f"{flag} needs a value.")
        return self._values.get(flag)

    def ignored(self, known: Collection[str]) -> list[str]:
        """Flags that nobody read and that are not among ``known``, in their order."""
        given = [*self._values, *sorted(self._switches)]
        return [flag for flag in given if flag not in self._read and flag not in known]


def read_flags(content: Mapping[str, Any] | str) -> Flags:
    """The flags of a mapping or of a command line.

    Raises:
        BadRequest: It is not made of flags, or gives one flag two values.
    """
    pairs = _of_text(content) if isinstance(content, str) else _of_mapping(content)
    values: dict[str, list[str]] = {}
    switches: set[str] = set()
    for flag, words in pairs:
        known = values.get(flag, [] if flag in switches else words)
        if known != words:
            raise wrong(flag, f"{flag} is given twice, as {_shown(known)} and {_shown(words)}.")
        if words:
            values[flag] = words
        else:
            switches.add(flag)
    return Flags(values, switches)


def wrong(flag: str, detail: str, hint: str | None = None) -> BadRequest:
    """The error for one flag."""
    return BadRequest(detail, field=f"{FIELD}[{flag[:80]}]", hint=hint)


def _of_text(line: str) -> list[tuple[str, list[str]]]:
    if len(line) > _LONGEST:
        raise BadRequest(f"The flags are longer than {_LONGEST} characters.", field=FIELD)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise BadRequest(f"The flags cannot be read: {error}.", field=FIELD) from None
    pairs: list[tuple[str, list[str]]] = []
    for word in words:
        flag, equals, value = word.partition("=")
        if _FLAG.fullmatch(flag):
            pairs.append((flag, [value] if equals else []))
        elif pairs:
            pairs[-1][1].append(word)
        else:
            raise BadRequest(
                f"{_shown(word)} is not a flag.",
                field=FIELD,
                hint="Give the arguments after the script's name, such as '--num-layers 32'.",
            )
    return pairs


def _of_mapping(content: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    if len(content) > _MOST_FLAGS:
        raise BadRequest(f"More than {_MOST_FLAGS} flags.", field=FIELD)
    pairs = []
    for flag, value in content.items():
        if not _FLAG.fullmatch(flag):
            raise wrong(flag, f"{_shown(flag)} is not a flag.", "Flags begin with two dashes.")
        if value is None or value is False:
            continue
        pairs.append((flag, [] if value is True else _words(flag, value)))
    return pairs


def _words(flag: str, value: object) -> list[str]:
    """The words of a value; a list may stand as JSON or as text in brackets."""
    if isinstance(value, list):
        words = [word for item in value for word in _words(flag, item)]
    elif isinstance(value, str):
        listed = re.fullmatch(r"\[([\w\s,.-]*)\]", value.strip())
        words = re.split(r"[\s,]+", listed[1].strip()) if listed else [value]
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18:
        words = [str(value)]
    else:
        raise wrong(flag, f"{flag} must be a number, a text, a list or true.")
    return [word for word in words if word]


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
