"""Problems: what a caller did wrong or what went wrong, in the form of RFC 9457.

The same words reach a caller over HTTP (``application/problem+json``) and on the command line.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from solver.errors import BadRequest, SolverFailed, StagecutError
from solver.strict import HOST, LABEL, LINE

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:stagecut:problem:"

_WANTED = {
    "model_type": "Give an object",
    "dict_type": "Give an object",
    "list_type": "Give a list",
    "tuple_type": "Give a list",
    "string_type": "Give a string",
    "int_type": "Give a whole number",
    "int_parsing": "Give a whole number",
    "int_from_float": "Give a whole number",
    "float_type": "Give a number",
    "float_parsing": "Give a number",
    "bool_type": "Give true or false",
    "bool_parsing": "Give true or false",
}
ID = "^[0-9A-Za-z_-]+$"
"""How the service writes ids."""

CLUSTER = "^[0-9A-Za-z._-]+$"
"""How clusters are named."""

_WRITTEN = {
    CLUSTER: "Write it with letters, digits, dots, hyphens and underscores.",
    ID: "Give an id as the service answered it.",
    LINE: "Write it in one line, without control characters.",
    HOST: "Write it without spaces and commas.",
    LABEL: "Write it as a Kubernetes label's key, such as `example.com/leaf`.",
}


class FieldProblem(BaseModel):
    """One field that is wrong, and the way out."""

    model_config = ConfigDict(frozen=True)

    field: str | None = Field(description="JSON path, such as `layout.tensor_parallel`.")
    detail: str = Field(description="What exactly is wrong.")
    hint: str | None = Field(default=None, description="The way out.")


class Problem(BaseModel):
    """A problem document (RFC 9457); ``field``, ``hint``, ``errors`` and ``request_id``
    are ours."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(description="A URN that names the kind of problem.")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What exactly is wrong, for a person.")
    field: str | None = Field(default=None, description="JSON path of the field at fault.")
    hint: str | None = Field(default=None, description="The way out.")
    errors: list[FieldProblem] = Field(
        default_factory=list, description="Every field at fault, when there are several."
    )
    request_id: str | None = Field(
        default=None, description="The request's id, as in `X-Request-ID` and in the logs."
    )

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        way_out = f" {self.hint}" if self.hint else ""
        return f"{where}{self.detail}{way_out}"

    @property
    def parts(self) -> list[FieldProblem]:
        """Every field at fault, also when there is only one."""
        alone = FieldProblem(field=self.field, detail=self.detail, hint=self.hint)
        return self.errors or [alone]

    def to_json(self) -> str:
        """The document as it is sent; absent members are left out."""
        return self.model_dump_json(exclude_defaults=True)


class ProblemError(Exception):
    """Raised anywhere below a route to answer with ``problem``."""

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.headers = dict(headers or {})


def problem(
    status: int,
    code: str,
    title: str,
    detail: str,
    *,
    field: str | None = None,
    hint: str | None = None,
) -> Problem:
    """A problem whose type is the URN of ``code``."""
    return Problem(
        type=TYPE_PREFIX + code, title=title, status=status, detail=detail, field=field, hint=hint
    )


def from_stagecut_error(error: StagecutError) -> Problem:
    """The problem that an error of the solver library describes."""
    status = 422 if isinstance(error, BadRequest) else 500
    if isinstance(error, SolverFailed):
        status = 500
    return problem(
        status, error.code, error.title, error.detail, field=error.field, hint=error.hint
    )


def from_validation_error(
    error: ValidationError | Sequence[ErrorDetails], data: Any, model: type[BaseModel]
) -> Problem:
    """The problem of a request that does not fit ``model``; ``data`` is the parsed JSON."""
    details = error.errors() if isinstance(error, ValidationError) else error
    # A misspelt field comes first: it explains the one that is missing.
    details = sorted(details, key=lambda detail: detail["type"] != "extra_forbidden")
    described = [_describe(detail, _location_in(data, detail["loc"]), model) for detail in details]
    return _not_well_formed(described, BadRequest.title)


def from_parameter_errors(details: Sequence[ErrorDetails]) -> Problem:
    """The problem of parameters of a path, a query or headers that do not fit.

    ``details`` are as FastAPI gives them: each location begins with where the parameter stands.
    """
    described = [_describe(detail, tuple(detail["loc"][1:]), None) for detail in details]
    return _not_well_formed(described, "A parameter does not fit")


def _not_well_formed(described: Sequence[FieldProblem], title: str) -> Problem:
    found: dict[str | None, FieldProblem] = {}
    for each in described:
        found.setdefault(each.field, each)
    first = next(iter(found.values()))
    several = list(found.values()) if len(found) > 1 else []
    return Problem(
        type=TYPE_PREFIX + BadRequest.code,
        title=title,
        status=422,
        detail=first.detail,
        field=first.field,
        hint=first.hint,
        errors=several,
    )


def json_path(location: Sequence[str | int]) -> str:
    """``("blocks", "layer", "ops", 3)`` as ``blocks.layer.ops[3]``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _describe(
    error: ErrorDetails, location: tuple[str | int, ...], model: type[BaseModel] | None
) -> FieldProblem:
    kind = error["type"]
    context = error.get("ctx", {})
    given = error.get("input")
    field = json_path(location) or None
    match kind:
        case "missing":
            return FieldProblem(field=field, detail="This field is missing.", hint="Add it.")
        case "extra_forbidden":
            return FieldProblem(
                field=field,
                detail="There is no such field.",
                hint=_nearest(location, model) if model else "Remove it.",
            )
        case "value_error":
            return FieldProblem(field=field, detail=_sentence(str(context.get("error", ""))))
        case "string_pattern_mismatch" if context.get("pattern") in _WRITTEN:
            return FieldProblem(
                field=field,
                detail=f"{_shown(given)} is not allowed here.",
                hint=_WRITTEN[context["pattern"]],
            )
        case "enum" | "literal_error":
            return FieldProblem(
                field=field,
                detail=f"{_shown(given)} is not a value of this field.",
                hint=f"Choose one of {context.get('expected', '')}.",
            )
        case _:
            said = error["msg"].removeprefix("Input should be ")
            bound = said.startswith(("greater", "less"))
            asked = f"Give {'a value ' if bound else ''}{said}" if said != error["msg"] else said
            wanted = _WANTED.get(kind, asked)
            return FieldProblem(
                field=field, detail=f"{_shown(given)} is not allowed here.", hint=_sentence(wanted)
            )


def _location_in(data: Any, location: Sequence[str | int]) -> tuple[str | int, ...]:
    """The steps of a pydantic location that are steps of the JSON, without its union tags."""
    path: list[str | int] = []
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if isinstance(data, Mapping) and isinstance(step, str) and (step in data or last):
            if step not in data and step == "[key]":
                continue
            path.append(step)
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int):
            path.append(step)
            data = data[step] if step < len(data) else None
    return tuple(path)


def _nearest(location: Sequence[str | int], model: type[BaseModel]) -> str:
    """What an unknown field was probably meant to be."""
    unknown = str(location[-1]) if location else ""
    known = _fields_at(location[:-1], model)
    close = difflib.get_close_matches(unknown, known, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    return f"Remove it; the fields here are {', '.join(sorted(known))}." if known else "Remove it."


def _fields_at(location: Sequence[str | int], model: type[BaseModel]) -> list[str]:
    """Names of the fields of the model that stands at ``location`` below ``model``."""
    here: Any = model
    for step in location:
        here = _below(here, step)
    found = _model_in(here)
    return list(found.model_fields) if found else []


def _below(annotation: Any, step: str | int) -> Any:
    found = _model_in(annotation)
    if found is not None:
        field = found.model_fields.get(str(step))
        return field.annotation if field else None
    for option in _options(annotation):
        arguments = typing.get_args(option)
        if typing.get_origin(option) in (dict, list) and arguments:
            return arguments[-1]
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _options(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
