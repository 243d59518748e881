"""Configuration as text: flags, YAML, JSON, Python, with what they are and what they leave out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import yaml

from solver.plan import Export


class Named(Protocol):
    """What an export says of its framework."""

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str]


@dataclass
class Remarks:
    """What is to be said beside a configuration: what it leaves out, and what to know of it."""

    lost: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)


def flags_export(target: Named, arguments: list[str], remarks: Remarks) -> Export:
    """Flags of a command line, one a line in their text."""
    text = " \\\n".join(arguments) + "\n"
    return _export(target, f"{target.name}.args", "text/plain", text, remarks, arguments)


def yaml_export(target: Named, document: Mapping[str, object], remarks: Remarks) -> Export:
    """A YAML file."""
    text = yaml_text(document)
    return _export(target, f"{target.name}.yaml", "application/yaml", text, remarks)


def json_export(target: Named, document: Mapping[str, object], remarks: Remarks) -> Export:
    """A JSON file."""
    text = json.dumps(_plain(document), indent=2) + "\n"
    return _export(target, f"{target.name}.json", "application/json", text, remarks)


def python_export(target: Named, text: str, remarks: Remarks) -> Export:
    """A Python file."""
    file = f"{target.name.replace('-', '_')}_plan.py"
    return _export(target, file, "text/x-python", text, remarks)


def yaml_text(document: object) -> str:
    """A document as YAML, texts of several lines as they are."""
    return str(yaml.dump(_plain(document), Dumper=_Dumper, sort_keys=False, width=100))


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _export(
    target: Named,
    file: str,
    media_type: str,
    text: str,
    remarks: Remarks,
    arguments: list[str] | None = None,
) -> Export:
    return Export(
        framework=target.name,
        version=target.version,
        arguments=arguments or [],
        file=file,
        media_type=media_type,
        text=text,
        exact=not remarks.lost,
        notes=[*remarks.lost, *remarks.known],
    )


def _plain(value: object) -> object:
    """Lists for tuples, so that the writers know every type."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
