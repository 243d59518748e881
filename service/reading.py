"""Reading JSON strictly: what is not JSON, not finite or not a request is named and refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import from_json, to_json

from service.problems import ProblemError, from_validation_error, problem

Model = TypeVar("Model", bound=BaseModel)


def parse(text: bytes) -> JsonValue:
    """The JSON value that ``text`` holds; each key stands once in its object.

    Raises:
        ProblemError: Not UTF-8, not JSON, nested too deeply, NaN, or a number out of range (400).
    """
    try:
        value: JsonValue = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ProblemError(
            problem(
                400,
                "not-json",
                "The input is not JSON",
                f"The input cannot be read as JSON: {error}.",
                hint="Send one JSON object, encoded as UTF-8, without NaN or Infinity.",
            )
        ) from None
    twice = _repeated_key(text)
    if twice is not None:
        raise ProblemError(
            problem(
                400,
                "not-json",
                "The input is not JSON",
                f"The key {twice[:100]!r} stands twice in one object.",
                hint="Give each field once.",
            )
        )
    endless = _endless_number(value)
    if endless is not None:
        raise ProblemError(
            problem(
                400,
                "not-json",
                "The input is not JSON",
                "A number is too large to be read.",
                field=endless,
                hint="Give a number below 1e308.",
            )
        )
    return value


def validate(model: type[Model], value: Any) -> Model:
    """``value`` as a ``model``.

    Raises:
        ProblemError: The value does not fit; the problem names every field at fault (422).
    """
    try:
        return model.model_validate_json(to_json(_whole(value)), strict=True)
    except ValidationError as error:
        raise ProblemError(from_validation_error(error, value, model)) from None


def _whole(value: Any) -> Any:
    """The same value with 8.0 written as 8: JSON knows one kind of number.

    Apart from that types are taken strictly, so that neither ``true`` nor ``"8"`` is a size.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _repeated_key(text: bytes) -> str | None:
    """A key that stands twice in one object; which of the two was meant cannot be known."""
    found: list[str] = []

    def pairs(members: list[tuple[str, object]]) -> None:
        if len(members) > 1 and len({key for key, _ in members}) < len(members):
            counts = Counter(key for key, _ in members)
            found.extend(key for key, count in counts.items() if count > 1)

    json.loads(text, object_pairs_hook=pairs)
    return found[0] if found else None


def _endless_number(value: JsonValue) -> str | None:
    """The JSON path of the first number that overflowed to infinity, if any."""
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, float) and not isfinite(here):
            return path or "(the whole)"
        if isinstance(here, Mapping):
            waiting.extend((f"{path}.{key}" if path else key, item) for key, item in here.items())
        elif isinstance(here, list):
            waiting.extend((f"{path}[{index}]", item) for index, item in enumerate(here))
    return None
