"""The form of the first page, as the request that it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from service.problems import ProblemError, problem
from service.reading import parse

MODEL_FORMS = ("name", "huggingface", "megatron_args", "profile")

_GIB = 2.0**30


def request_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """The request, not yet validated. What is left empty is left out.

    Raises:
        ProblemError: A pasted text is not JSON.
    """
    filled = {name: text.strip() for name, text in fields.items() if text.strip()}
    form = filled.get("model_form", "name")
    request: dict[str, Any] = {"model": _model(form, filled), "cluster": _cluster(form, filled)}
    for part, readers in _PARTS.items():
        found = {
            name: read(filled[f"{part}.{name}"])
            for name, read in readers.items()
            if f"{part}.{name}" in filled
        }
        if found:
            request[part] = found
    return request


def _model(form: str, filled: Mapping[str, str]) -> dict[str, Any]:
    text = filled.get(f"model.{form}", "")
    if form in ("huggingface", "profile"):
        return {form: _json(text, f"model.{form}")}
    if form == "megatron_args" and text.startswith("{"):
        return {form: _json(text, "model.megatron_args")}
    return {form: text.replace("\\\n", " ")}


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


def _cluster(form: str, filled: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "cluster.memory_gib" in filled:
        memory = _number(filled["cluster.memory_gib"])
        found["memory_bytes"] = memory * _GIB if isinstance(memory, float) else memory
    if form == "profile":
        return found
    for name, read in _CLUSTER.items():
        if f"cluster.{name}" in filled:
            found[name] = read(filled[f"cluster.{name}"])
    return found


def _whole(text: str) -> int | str:
    """A whole number; what is none is left for the validation to refuse by name."""
    digits = text.replace(",", "").replace(" ", "")
    return int(digits) if digits.isdecimal() and len(digits) < 16 else text


def _number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _yes(text: str) -> bool | str:
    return {"yes": True, "no": False}.get(text, text)


_Read = Callable[[str], Any]
_CLUSTER: dict[str, _Read] = {
    "device": str,
    "nodes": _whole,
    "devices_per_node": _whole,
    "fabric": str,
}
_PARTS: dict[str, dict[str, _Read]] = {
    "training": {
        "sequence_length": _whole,
        "global_batch_size": _whole,
        "precision": str,
        "attention": str,
        "optimizer": str,
    },
    "layout": {
        "tensor_parallel": _whole,
        "pipeline_parallel": _whole,
        "data_parallel": _whole,
        "context_parallel": _whole,
        "expert_parallel": _whole,
        "virtual_stages": _whole,
        "micro_batch_size": _whole,
        "zero_stage": _whole,
        "sequence_parallel": _yes,
        "schedule": str,
    },
    "recompute": {"policy": str},
    "target": {"framework": str},
    "solver": {"time_limit_seconds": _number},
}
