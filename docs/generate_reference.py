"""Writes the reference pages from the types: ``docs/requests.md`` and ``docs/settings.md``.

    python docs/generate_reference.py

A test compares the pages with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.batches.documents import BatchDocument, BatchRequest
from service.clusters import ClusterDocument, ClusterImport
from service.documents import PlanDocument
from service.importing import ImportRequest
from service.problems import Problem
from service.settings import Settings
from solver.capacity.documents import CapacityAnswer, CapacityRequest
from solver.checkpoints.documents import CheckpointAdvice, CheckpointTerms
from solver.cluster.readers.read import FORMATS
from solver.contingencies.documents import ContingencyAnswer, ContingencyRequest, Covered
from solver.expected.documents import ExpectedAnswer, ObservationAnswer, Observations
from solver.imports.documents import ImportAnswer
from solver.placement.documents import PlacementAnswer, PlacementRequest
from solver.plan import Evaluation
from solver.projections.documents import Projection
from solver.request import PlanRequest
from solver.transitions.documents import TransitionAnswer, TransitionRequest

FOLDER = Path(__file__).parent
Schema = Mapping[str, Any]

INTRODUCTION = """\
# Requests and answers

Every field of every document, written by `docs/generate_reference.py` from the types in
[`solver/request.py`](../solver/request.py), [`solver/plan.py`](../solver/plan.py) and
[`service/documents.py`](../service/documents.py).

Seconds, bytes, bytes per second and FLOP/s throughout. A field that a type does not have is
refused, with its path. A file that a request is read from is the body of an HTTP request and the
other way round. How to read the answers: [reading a plan](guides/reading-a-plan.md).
"""

PARTS: tuple[tuple[str, str, type[BaseModel]], ...] = (
    (
        "Requests",
        "The body of `POST /v1/plans` and `POST /v1/evaluations`, the file of `stagecut plan` and "
        "`stagecut evaluate`.",
        PlanRequest,
    ),
    (
        "Plans",
        "The answer of `POST /v1/plans`, `GET /v1/plans/{id}` and `stagecut plan --json`. The "
        "command line leaves out `progress` and `problem`, which only the service has.",
        PlanDocument,
    ),
    (
        "Evaluations",
        "The answer of `POST /v1/evaluations` and `stagecut evaluate --json`.",
        Evaluation,
    ),
    (
        "Projections",
        "The answer of `GET /v1/plans/{id}/projections/{framework}` and `stagecut project --json`.",
        Projection,
    ),
    (
        "Import requests",
        "The body of `POST /v1/imports`. `stagecut import` takes the configuration as a file, and "
        "the other fields as another.",
        ImportRequest,
    ),
    (
        "Imports",
        "The answer of `POST /v1/imports`, `GET /v1/imports/{id}` and `stagecut import --json`.",
        ImportAnswer,
    ),
    (
        "Batches",
        "The body of `POST /v1/batches`. A line of `stagecut batch` is a BatchCase.",
        BatchRequest,
    ),
    (
        "Results of batches",
        "The answer of `POST /v1/batches`, `GET /v1/batches/{id}` and the file of "
        "`stagecut batch --json`.",
        BatchDocument,
    ),
    (
        "Capacity requests",
        "The body of `POST /v1/capacity`, the file of `stagecut capacity`.",
        CapacityRequest,
    ),
    (
        "Capacity curves",
        "The answer of `POST /v1/capacity`, `GET /v1/capacity/{id}` and "
        "`stagecut capacity --json`; "
        "with the query `nodes` a Point of it.",
        CapacityAnswer,
    ),
    (
        "Contingency requests",
        "The body of `POST /v1/contingencies`, the file of `stagecut contingencies`.",
        ContingencyRequest,
    ),
    (
        "Contingencies",
        "The answer of `POST /v1/contingencies`, `GET /v1/contingencies/{id}` and "
        "`stagecut contingencies --json`.",
        ContingencyAnswer,
    ),
    (
        "Contingencies of a failed node set",
        "The answer of `GET /v1/contingencies/{id}` with the query `failed`, and of "
        "`stagecut contingencies --failed NAME --json`.",
        Covered,
    ),
    (
        "Expectations",
        "The answer of `GET /v1/plans/{id}/expected` and `stagecut expected --json`.",
        ExpectedAnswer,
    ),
    (
        "Observations",
        "The body of `POST /v1/plans/{id}/observations`, the file of `stagecut observe`.",
        Observations,
    ),
    (
        "Judged observations",
        "The answer of `POST /v1/plans/{id}/observations` and `stagecut observe --json`; "
        "`GET /v1/plans/{id}/observations` lists them.",
        ObservationAnswer,
    ),
    (
        "Checkpoint terms",
        "The body of `POST /v1/plans/{id}/checkpoints`; `stagecut checkpoints` has options for it.",
        CheckpointTerms,
    ),
    (
        "Checkpoint advice",
        "The answer of `POST /v1/plans/{id}/checkpoints` and `stagecut checkpoints --json`.",
        CheckpointAdvice,
    ),
    (
        "Placement requests",
        "The body of `POST /v1/placements`, the file of `stagecut place`.",
        PlacementRequest,
    ),
    (
        "Placements",
        "The answer of `POST /v1/placements` and `stagecut place --json`.",
        PlacementAnswer,
    ),
    (
        "Transition requests",
        "The body of `POST /v1/transitions`, the file of `stagecut move`.",
        TransitionRequest,
    ),
    (
        "Transitions",
        "The answer of `POST /v1/transitions` and `stagecut move --json`.",
        TransitionAnswer,
    ),
    (
        "Cluster imports",
        "The body of `POST /v1/clusters`; `stagecut cluster import` has an option for every field. "
        "Formats: " + ", ".join(f"`{name}`" for name in FORMATS) + ".",
        ClusterImport,
    ),
    (
        "Clusters",
        "The answer of `POST /v1/clusters`, `GET /v1/clusters/{id}` and "
        "`stagecut cluster import --json`. Its `topology` may stand in a request's "
        "`cluster.topology`.",
        ClusterDocument,
    ),
    (
        "Problems",
        "Every answer of the service with a status from 400 on, as `application/problem+json` "
        "(RFC 9457).",
        Problem,
    ),
)

SETTINGS = """\
# Settings

Read from the environment when the service starts; written by `docs/generate_reference.py` from
[`service/settings.py`](../service/settings.py). How to use them: [operating the
service](guides/operator.md).

"""


def requests_page() -> str:
    """The whole reference of requests and answers."""
    _, document = models_json_schema(
        [(model, "validation") for _, _, model in PARTS], ref_template="{model}"
    )
    types: Schema = document["$defs"]
    written: set[str] = set()
    lines = [INTRODUCTION]
    starts = {model.__name__ for _, _, model in PARTS}
    for title, introduction, model in PARTS:
        lines += [f"## {title}", "", introduction, ""]
        for name in _reached(model.__name__, types):
            if name not in written and (name not in starts or name == model.__name__):
                written.add(name)
                lines += _type(name, types)
    return "\n".join(lines).rstrip() + "\n"


def settings_page() -> str:
    """A table of the settings."""
    prefix = str(Settings.model_config["env_prefix"])
    schema = Settings.model_json_schema()
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        default = _default(field)
        if Settings.model_fields[name].default_factory is not None:
            default = "processors" if name == "solver_processes" else ""
        rows.append(f"| `{prefix}{name.upper()}` | {default} | {_plain(field['description'])} |")
    return SETTINGS + "\n".join(rows) + "\n"


def _reached(name: str, types: Schema) -> Iterator[str]:
    """Object types from one on, each before those that it mentions first."""
    waiting, seen = [name], set()
    while waiting:
        here = waiting.pop(0)
        if here in seen:
            continue
        seen.add(here)
        if "properties" in types[here]:
            yield here
            waiting[:0] = [found for found in _references(types[here]) if found not in seen]


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _type(name: str, types: Schema) -> Iterator[str]:
    schema = types[name]
    yield f"### {name}"
    yield ""
    yield _paragraph(schema.get("description", ""))
    yield ""
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    required = schema.get("required", ())
    for field, described in schema["properties"].items():
        default = "required" if field in required else _default(described)
        meaning = _plain(described.get("description") or _meaning(described, types))
        yield f"| `{field}` | {_shape(described, types)} | {default} | {meaning} |"
    yield ""


def _meaning(schema: Schema, types: Schema) -> str:
    """What a field says by its type alone."""
    for name in _references(schema):
        return str(types[name].get("description", "")).partition("\n")[0]
    return ""


def _default(schema: Schema) -> str:
    value = schema.get("default")
    if value in (None, "") or isinstance(value, dict | list):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _shape(schema: Schema, types: Schema) -> str:
    """A schema in words."""
    if "$ref" in schema:
        return _named(schema["$ref"], types)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        shown = [_shape(o, types) for o in options if o.get("type") != "null"]
        return " or ".join(shown)
    match schema.get("type"):
        case "array":
            if "prefixItems" in schema:
                return f"[{', '.join(_shape(item, types) for item in schema['prefixItems'])}]"
            return f"list of {_shape(schema['items'], types)}"
        case "object":
            inner = schema.get("additionalProperties")
            of_one_type = isinstance(inner, Mapping) and "properties" in types.get(
                inner.get("$ref", ""), {}
            )
            return f"{_shape(inner, types)} by name" if of_one_type and inner else "object"
        case "integer" | "number" as kind:
            word = "whole number" if kind == "integer" else "number"
            return word + _range(schema)
        case str(kind):
            return kind
        case _:
            return "any"


def _named(name: str, types: Schema) -> str:
    schema = types[name]
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return f"[{name}](#{name.lower()})" if "properties" in schema else "any"


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("exclusiveMinimum") == 0:
        return " > 0"
    if low is not None and high is not None and high <= 1024:
        return f" {low:g} to {high:g}"
    return f" ≥ {low:g}" if low is not None else ""


def _paragraph(text: str) -> str:
    """A docstring as one paragraph, its RST literals in Markdown."""
    return " ".join(text.replace("``", "`").split())


def _plain(text: str) -> str:
    return _paragraph(text).replace("|", "\\|")


PAGES = {"requests.md": requests_page, "settings.md": settings_page}


if __name__ == "__main__":
    for page_name, write in PAGES.items():
        (FOLDER / page_name).write_text(write())
