"""The form of the first page, as the request that it describes.

The form shows part of a request; beside it stands the whole as JSON. What the form does not show
is taken from there, so that nothing is lost where a request is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from service.pages.form_values import number, whole_number, written, yes
from service.problems import ProblemError, problem
from service.reading import parse

MODEL_FORMS = ("name", "huggingface", "megatron_args", "profile")
JSON_FIELD = "json"
"""The field with the whole request as JSON text."""

_GIB = 2.0**30
_Request = dict[str, Any]
_Read = Callable[[str], Any]


def request_of(fields: Mapping[str, str]) -> _Request:
    """The request, not yet validated: that of the JSON, with what the form shows put over it.

    What is left empty in the form is left out.

    Raises:
        ProblemError: A pasted text is not JSON.
    """
    filled = {
        name: text.replace("\r\n", "\n").strip() for name, text in fields.items() if text.strip()
    }
    form = filled.get("model_form", "name")
    request = _whole(filled)
    shown = fields_of(request)
    request["model"] = _model(form, filled, shown, request)
    request["cluster"] = _cluster(form, filled, shown, _part(request, "cluster"))
    for part, readers in _PARTS.items():
        found = _over(part, readers, filled, shown, _part(request, part))
        if found:
            request[part] = found
        else:
            request.pop(part, None)
    return request


def pasted_request(text: str) -> _Request:
    """The request of the JSON alone.

    Raises:
        ProblemError: The text is not a JSON object.
    """
    found = _json(text, JSON_FIELD)
    if not isinstance(found, dict):
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request does not fit",
                "A request is a JSON object.",
                field=JSON_FIELD,
            )
        )
    return found


def fields_of(request: Mapping[str, Any]) -> dict[str, str]:
    """The form that shows this request, valid or not; what it has no field for is not in it."""
    model = _part(request, "model")
    form = next((name for name in MODEL_FORMS if name in model), None)
    fields: dict[str, str] = {}
    if form is not None:
        value = model[form]
        fields["model_form"] = form
        fields[f"model.{form}"] = (
            value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        )
    for part, readers in {"cluster": _CLUSTER, **_PARTS}.items():
        given = _part(request, part)
        for name in readers:
            if isinstance(value := given.get(name), str | int | float):
                fields[f"{part}.{name}"] = written(value)
    memory = _part(request, "cluster").get("memory_bytes")
    if isinstance(memory, int | float) and not isinstance(memory, bool):
        fields["cluster.memory_gib"] = written(round(memory / _GIB, 2))
    return fields


def as_text(request: Mapping[str, Any]) -> str:
    """The request as JSON for people."""
    return json.dumps(request, indent=2, ensure_ascii=False)


def _whole(filled: Mapping[str, str]) -> _Request:
    return pasted_request(filled[JSON_FIELD]) if JSON_FIELD in filled else {}


def _part(request: Mapping[str, Any], name: str) -> _Request:
    found = request.get(name)
    return dict(found) if isinstance(found, dict) else {}


def _model(
    form: str, filled: Mapping[str, str], shown: Mapping[str, str], request: _Request
) -> Any:
    text = filled.get(f"model.{form}", "")
    if text and text == shown.get(f"model.{form}", "").strip():
        return request["model"]
    if form in ("huggingface", "profile"):
        return {form: _json(text, f"model.{form}")}
    if form == "megatron_args" and text.startswith("{"):
        return {form: _json(text, "model.megatron_args")}
    return {form: text.replace("\\\n", " ")}


def _cluster(
    form: str, filled: Mapping[str, str], shown: Mapping[str, str], cluster: _Request
) -> _Request:
    """The cluster; a profile says itself what its devices do, so it names none."""
    memory = filled.get("cluster.memory_gib")
    if memory is None:
        cluster.pop("memory_bytes", None)
    elif memory != shown.get("cluster.memory_gib"):  # which is rounded
        said = number(memory)
        cluster["memory_bytes"] = said * _GIB if isinstance(said, float) else said
    if form == "profile":
        return {name: value for name, value in cluster.items() if name not in _CLUSTER}
    return _over("cluster", _CLUSTER, filled, shown, cluster)


def _over(
    part: str,
    readers: Mapping[str, _Read],
    filled: Mapping[str, str],
    shown: Mapping[str, str],
    given: _Request,
) -> _Request:
    """The part as it was given, with what the form says over it."""
    for name, read in readers.items():
        field = f"{part}.{name}"
        if field not in filled:
            if not isinstance(given.get(name), dict | list):  # no field of the form shows those
                given.pop(name, None)
        elif filled[field] != shown.get(field):
            given[name] = read(filled[field])
    return given


def _json(text: str, field: str) -> Any:
    if not text:
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request does not fit",
                "Nothing is pasted yet.",
                field=field,
                hint="Paste the whole JSON object.",
            )
        )
    try:
        return parse(text.encode())
    except ProblemError as error:
        found = error.problem
        raise ProblemError(found.model_copy(update={"field": field, "status": 422})) from None


_CLUSTER: dict[str, _Read] = {
    "device": str,
    "nodes": whole_number,
    "devices_per_node": whole_number,
    "fabric": str,
}
_PARTS: dict[str, dict[str, _Read]] = {
    "training": {
        "sequence_length": whole_number,
        "global_batch_size": whole_number,
        "precision": str,
        "software": str,
        "attention": str,
    },
    "layout": {
        "tensor_parallel": whole_number,
        "pipeline_parallel": whole_number,
        "data_parallel": whole_number,
        "context_parallel": whole_number,
        "expert_parallel": whole_number,
        "virtual_stages": whole_number,
        "micro_batch_size": whole_number,
        "zero_stage": whole_number,
        "sequence_parallel": yes,
        "schedule": str,
    },
    "recompute": {"policy": str, "overlap": str, "offload": str},
    "target": {"framework": str},
    "solver": {"time_limit_seconds": number},
}
