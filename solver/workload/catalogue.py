"""The catalogue of models: facts of published configurations, in ``models.json``.

Each entry holds what its public ``config.json`` (or paper) says and where that stands, and is read
like any other configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from solver.errors import UnknownName
from solver.workload.architecture import Architecture
from solver.workload.huggingface import architecture_from_huggingface


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue: its configuration, where that stands, and what to know of it."""

    name: str
    source: str
    note: str
    config: Mapping[str, Any]


@cache
def models() -> Mapping[str, Entry]:
    """All entries by name, in the order of the file."""
    text = files("solver.workload").joinpath("models.json").read_text(encoding="utf-8")
    entries = (
        Entry(entry["name"], entry["source"], entry.get("note", ""), entry["config"])
        for entry in json.loads(text)
    )
    return MappingProxyType({entry.name: entry for entry in entries})


def model_names() -> tuple[str, ...]:
    """The names of all models."""
    return tuple(models())


def architecture(name: str, field: str = "model.name") -> Architecture:
    """The architecture of the model of that name.

    Raises:
        UnknownName: No such model; the hint names close ones.
    """
    entry = models().get(name)
    if entry is None:
        close = get_close_matches(name.lower().replace("_", "-"), models(), n=3, cutoff=0.5)
        raise UnknownName(
            f"There is no model {name[:80]!r}.",
            field=field,
            hint=f"Did you mean {' or '.join(close)}?"
            if close
            else f"Known: {', '.join(models())}. Or give the config.json as model.huggingface.",
        )
    return replace(architecture_from_huggingface(entry.config), name=name)
