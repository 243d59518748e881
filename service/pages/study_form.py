"""The forms of capacity curves and contingencies, as the requests that they describe.

The job in them is the request of a plan, so its form is that of the first page; around it stands
what is asked of it. What a form has no field for is taken from the JSON beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.pages import form
from service.pages.form import JSON_FIELD, pasted_request
from service.pages.form_values import number, whole_number, written, yes

_GIGABYTE = 1e9


@dataclass(frozen=True)
class _Field:
    """A field of the form: where its value stands, how it is written and read again.

    ``read`` is given the text and the value that is there now.
    """

    name: str
    path: tuple[str, ...]
    write: Callable[[Any], str | None]
    read: Callable[[str, Any], Any]


def request_of(kind: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The request, not yet validated: that of the JSON, with what the form shows put over it.

    Raises:
        ProblemError: A pasted text is not JSON.
    """
    text = fields.get(JSON_FIELD, "").strip()
    whole = pasted_request(text) if text else {}
    job = whole.get("job")
    inner = {**fields, JSON_FIELD: form.as_text(job) if isinstance(job, dict) else "{}"}
    whole["job"] = form.request_of(inner)
    for field in _FIELDS[kind]:
        _put(whole, field, fields.get(field.name, "").replace("\r\n", "\n").strip())
    return whole


def fields_of(kind: str, request: Mapping[str, Any]) -> dict[str, str]:
    """The form that shows this request, valid or not."""
    job = request.get("job")
    shown = form.fields_of(job) if isinstance(job, dict) else {}
    for field in _FIELDS[kind]:
        value = _value(request, field.path)
        said = None if value is None else field.write(value)
        if said is not None:
            shown[field.name] = said
    return shown


def _put(whole: dict[str, Any], field: _Field, text: str) -> None:
    """Write the field's text into the request, unless that says the same already."""
    value = _value(whole, field.path)
    shown = None if value is None else field.write(value)
    if text == (shown or ""):
        return
    *outer, last = field.path
    if text:
        part = whole
        for name in outer:
            inner = part.get(name)
            part[name] = part = dict(inner) if isinstance(inner, dict) else {}
        part[last] = field.read(text, value)
    elif not outer:
        whole.pop(last, None)
    else:
        rest = {name: value for name, value in whole[outer[0]].items() if name != last}
        if rest:
            whole[outer[0]] = rest
        else:
            del whole[outer[0]]


def _value(request: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = request
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _scalar(value: Any) -> str | None:
    return written(value) if isinstance(value, str | int | float) else None


def _gigabytes(value: Any) -> str | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return written(value / _GIGABYTE) if known else None


def _bytes(text: str, _: Any) -> Any:
    said = number(text)
    return said * _GIGABYTE if isinstance(said, float) else said


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _names(value: Any) -> str | None:
    plain = isinstance(value, list) and all(isinstance(name, str | int) for name in value)
    return ", ".join(map(str, value)) if plain else None


def _kinds(value: Any) -> str | None:
    """Kinds of node, each by its device."""
    known = isinstance(value, list) and all(
        isinstance(kind, dict) and isinstance(kind.get("device"), str) for kind in value
    )
    return ", ".join(kind["device"] for kind in value) if known else None


def _read_kinds(text: str, value: Any) -> list[dict[str, Any]]:
    """What else was said of a kind stays."""
    known = {kind["device"]: kind for kind in value} if _kinds(value) else {}
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [known.get(name, {"device": name}) for name in names]


def _nodes(value: Any) -> str | None:
    """A line per node: its name, and its leaf if that is known."""
    known = isinstance(value, list) and all(
        isinstance(node, dict) and isinstance(node.get("name"), str) for node in value
    )
    return "\n".join(f"{node['name']} {node.get('leaf') or ''}".strip() for node in value) if (
        known
    ) else None  # fmt: skip


def _read_nodes(text: str, _: Any) -> list[dict[str, str]]:
    found = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, _, leaf = line.partition(" ")
        found.append({"name": name, "leaf": leaf.strip()} if leaf.strip() else {"name": name})
    return found


def _number_at(*path: str) -> _Field:
    return _Field(".".join(path), path, _scalar, lambda text, _: number(text))


def _count_at(*path: str) -> _Field:
    return _Field(".".join(path), path, _scalar, lambda text, _: whole_number(text))


_LIMITS = (
    _number_at("relative_gap"),
    _number_at("seconds_per_size"),
    _number_at("time_limit_seconds"),
)
_FIELDS: dict[str, tuple[_Field, ...]] = {
    "capacity": (
        _count_at("nodes", "minimum"),
        _count_at("nodes", "maximum"),
        _count_at("nodes", "step"),
        _Field("devices", ("devices",), _kinds, _read_kinds),
        _count_at("spread", "nodes_per_leaf"),
        _number_at("spread", "oversubscription"),
        *_LIMITS,
    ),
    "contingency": (
        _Field("nodes", ("nodes",), _nodes, _read_nodes),
        _Field("spares", ("spares",), _names, lambda text, _: _words(text)),
        _Field(
            "stages",
            ("stages",),
            _names,
            lambda text, _: [whole_number(word) for word in _words(text)],
        ),
        _count_at("most_failed"),
        _number_at("horizon_seconds"),
        _number_at("restart_seconds"),
        _Field(
            "storage_gigabytes_per_second",
            ("storage_bytes_per_second",),
            _gigabytes,
            _bytes,
        ),
        _Field("local_checkpoints", ("local_checkpoints",), _scalar, lambda text, _: yes(text)),
        _number_at("checkpoint_interval_seconds"),
        *_LIMITS,
    ),
}
