"""Reads a topology file of any known format, which it recognises if it is not told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from solver.cluster.readers import (
    kubernetes,
    nccl_xml,
    nvidia_smi,
    own,
    rank_table,
    slurm_conf,
    slurm_nodes,
    slurm_yaml,
    topograph,
    volcano,
)
from solver.cluster.readers.broken import broken
from solver.cluster.readers.documents import from_json, from_yaml
from solver.cluster.topology import Topology
from solver.errors import UnknownName

_FROM_JSON: dict[str, Callable[[Any, str], Topology]] = {
    kubernetes.FORMAT: kubernetes.read,
    slurm_nodes.FORMAT: slurm_nodes.read,
    topograph.FORMAT: topograph.read,
    rank_table.FORMAT: rank_table.read,
    own.FORMAT: lambda value, _: own.read(value),
}
_RECOGNISED: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (kubernetes.reads, kubernetes.FORMAT),
    (slurm_nodes.reads, slurm_nodes.FORMAT),
    (topograph.reads, topograph.FORMAT),
    (rank_table.reads, rank_table.FORMAT),
    (own.reads, own.FORMAT),
)
FORMATS = (
    slurm_conf.FORMAT,
    slurm_yaml.FORMAT,
    slurm_nodes.FORMAT,
    kubernetes.FORMAT,
    volcano.FORMAT,
    topograph.FORMAT,
    nvidia_smi.FORMAT,
    nccl_xml.FORMAT,
    rank_table.FORMAT,
    own.FORMAT,
)
"""Names of the formats that can be read."""


def read_topology(content: Any, format: str | None = None, part: str | None = None) -> Topology:
    """The topology that a file describes.

    Args:
        content: The file's text, or for JSON formats its value.
        format: One of ``FORMATS``; recognised if None.
        part: For a file of several topologies, the one that is meant.

    Raises:
        BrokenFile: The file breaks its format, or is of none that is known.
        UnknownName: No such format.
    """
    if format is not None and format not in FORMATS:
        raise UnknownName(
            f"There is no format {format[:60]!r}.", field="format", hint=f"Known: {_known()}."
        )
    try:
        if not isinstance(content, str):
            return _of_value(content, "", format)
        if not content.strip():
            raise broken("The file is empty.", 1)
        return _of_text(content, format or _guess(content), part)
    except (AttributeError, KeyError, TypeError) as error:
        # A list where an object should be, and the like: not worth a sentence of its own each.
        raise broken(f"A part of the file has not the shape of its format ({error}).") from None


def _of_text(text: str, format: str, part: str | None) -> Topology:
    if format == slurm_conf.FORMAT:
        return slurm_conf.read(text)
    if format == slurm_yaml.FORMAT:
        return slurm_yaml.read(text, part)
    if format == nvidia_smi.FORMAT:
        return nvidia_smi.read(text)
    if format == nccl_xml.FORMAT:
        return nccl_xml.read(text)
    if format == volcano.FORMAT:
        return volcano.read(from_yaml(text), text)
    if text.lstrip().startswith("{"):
        return _of_value(from_json(text), text, None if format == "json" else format)
    documents = from_yaml(text)
    return _of_value(documents[0] if documents else None, text, None)


def _of_value(value: Any, text: str, format: str | None) -> Topology:
    recognised = next((name for reads, name in _RECOGNISED if reads(value)), None)
    if volcano.reads([value]) and format in (None, volcano.FORMAT):
        return volcano.read([value], text)
    if recognised is None or (format is not None and format != recognised):
        meant = f"a file of the format {format}" if format else "of a known format"
        raise broken(f"This is not {meant}.", hint=f"Known formats: {_known()}.")
    return _FROM_JSON[recognised](value, text)


def _guess(text: str) -> str:
    """The format of a text by its first words."""
    if nccl_xml.reads(text):
        return nccl_xml.FORMAT
    if text.lstrip().startswith("{"):
        return "json"
    if nvidia_smi.reads(text):
        return nvidia_smi.FORMAT
    if any(f"{word}=" in text.lower() for word in ("switchname", "blockname")):
        return slurm_conf.FORMAT
    if "kind: HyperNode" in text:
        return volcano.FORMAT
    if "topology:" in text and "cluster_default" in text:
        return slurm_yaml.FORMAT
    if "topology:" in text and text.lstrip().startswith(("-", "---")):
        return slurm_yaml.FORMAT
    return "json"


def _known() -> str:
    return ", ".join(FORMATS)
