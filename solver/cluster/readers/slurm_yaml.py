"""Slurm's ``topology.yaml`` (from 25.05): named topologies of several kinds.

man topology.yaml(5). A tree gives switches; blocks, rings and tori each count as a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver.cluster.readers.broken import broken, line_of
from solver.cluster.readers.documents import from_yaml
from solver.cluster.readers.host_list import hosts
from solver.cluster.readers.switches import Switch, paths
from solver.cluster.topology import Node, Topology

FORMAT = "slurm-topology-yaml"

_KINDS = {
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
    "torus3d": ("toruses", "name"),
}


def read(text: str, part: str | None = None) -> Topology:
    """The topology called ``part``, else the cluster's default, else the first.

    Raises:
        BrokenFile: The file is not of this form, or has no such topology.
    """
    entries = _entries(text)
    chosen = _chosen(entries, part, text)
    name = chosen["topology"]
    nodes = paths(_switches(chosen, name, text))
    notes = []
    if len(entries) > 1:
        others = ", ".join(str(entry["topology"]) for entry in entries if entry is not chosen)
        notes.append(f"Of the file's topologies {name} was taken, not {others}.")
    return Topology(
        nodes=tuple(Node(node, path) for node, path in nodes.items()),
        formats=(FORMAT,),
        notes=tuple(notes),
    )


def _entries(text: str) -> list[Mapping[str, Any]]:
    documents = from_yaml(text)
    entries = documents[0] if documents else None
    if not isinstance(entries, list) or not entries:
        raise broken("A topology.yaml is a list of topologies.", 1)
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("topology"), str):
            raise broken("Every entry of a topology.yaml has a `topology`, its name.", 1)
    return entries


def _chosen(entries: list[Mapping[str, Any]], part: str | None, text: str) -> Mapping[str, Any]:
    if part is not None:
        for entry in entries:
            if entry["topology"] == part:
                return entry
        known = ", ".join(entry["topology"] for entry in entries)
        raise broken(f"There is no topology {part[:60]!r}.", 1, f"Known: {known}.")
    defaults = [entry for entry in entries if entry.get("cluster_default")]
    if len(defaults) > 1:
        name = str(defaults[1]["topology"])
        raise broken("Two topologies are the cluster's default.", line_of(text, name))
    return defaults[0] if defaults else entries[0]


def _switches(entry: Mapping[str, Any], name: str, text: str) -> list[Switch]:
    if "tree" in entry:
        return [
            Switch(
                _name(item, "switch", text),
                _hosts(item, "children", text),
                _hosts(item, "nodes", text),
                line_of(text, f"switch: {item['switch']}"),
            )
            for item in _items(entry["tree"], "switches", name, text)
        ]
    for kind, (plural, singular) in _KINDS.items():
        if kind in entry:
            return [
                Switch(
                    _name(item, singular, text),
                    nodes=_hosts(item, "nodes", text),
                    line=line_of(text, f"{singular}: {item[singular]}"),
                )
                for item in _items(entry[kind], plural, name, text)
            ]
    raise broken(
        f"The topology {name} is of none of the kinds tree, block, ring and torus3d.",
        line_of(text, name),
        "A flat topology says nothing of the fabric; give the list of nodes instead.",
    )


def _items(content: Any, plural: str, name: str, text: str) -> list[Mapping[str, Any]]:
    items = content.get(plural) if isinstance(content, Mapping) else None
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise broken(f"The topology {name} has no list `{plural}`.", line_of(text, name))
    return items


def _name(item: Mapping[str, Any], key: str, text: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        line = line_of(text, *(str(other) for other in item.values()))
        raise broken(f"An entry has no name `{key}`.", line)
    return value


def _hosts(item: Mapping[str, Any], key: str, text: str) -> tuple[str, ...]:
    value = item.get(key)
    if value is None:
        return ()
    try:
        return tuple(hosts(str(value)))
    except ValueError as error:
        raise broken(
            f"This host list cannot be read: {error}.", line_of(text, str(value))
        ) from None
