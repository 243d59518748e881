"""Volcano's HyperNode tree (topology.volcano.sh/v1alpha1), with or without the nodes themselves.

Members are named exactly, by a regular expression or by labels. Expressions that stand for finitely
many names are spelt out; other expressions and labels need the nodes in the same stream, as
``kubectl get hypernodes,nodes -o yaml`` gives them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from solver.cluster.readers import kubernetes
from solver.cluster.readers.broken import broken, line_of
from solver.cluster.readers.switches import Switch, paths
from solver.cluster.topology import Node, Topology

FORMAT = "volcano-hypernodes"

_MOST_NAMES = 4096


def reads(documents: list[Any]) -> bool:
    """Whether a YAML stream holds HyperNodes."""
    return any(item.get("kind") == "HyperNode" for item in _items(documents))


def read(documents: list[Any], text: str) -> Topology:
    """The tree of the stream; documents of other kinds are passed over.

    Raises:
        BrokenFile: A HyperNode cannot be read, or the tree is none.
    """
    items = _items(documents)
    known = [item for item in items if item.get("kind") == "Node"]
    labels = dict(kubernetes.labels_of(item, text) for item in known)
    notes: list[str] = []
    switches = [
        _switch(item, labels, text, notes) for item in items if item.get("kind") == "HyperNode"
    ]
    route = paths(switches)
    inventory: dict[str, Node] = {}
    if known:
        read_nodes = kubernetes.read({"items": known}, text)
        inventory = {node.name: node for node in read_nodes.nodes}
    return Topology(
        nodes=tuple(
            replace(inventory.get(name, Node(name)), path=path) for name, path in route.items()
        ),
        formats=(FORMAT,),
        notes=tuple(notes),
    )


def _items(documents: list[Any]) -> list[Mapping[str, Any]]:
    items: list[Any] = []
    for document in documents:
        if isinstance(document, Mapping):
            inner = document.get("items")
            items.extend(inner if isinstance(inner, list) else [document])
    return [item for item in items if isinstance(item, Mapping)]


def _switch(
    item: Mapping[str, Any], labels: dict[str, dict[str, str]], text: str, notes: list[str]
) -> Switch:
    name = (item.get("metadata") or {}).get("name")
    members = (item.get("spec") or {}).get("members")
    if not isinstance(name, str) or not isinstance(members, list):
        raise broken(
            "A HyperNode needs metadata.name and spec.members.",
            line_of(text, str(name), "HyperNode"),
        )
    below: list[str] = []
    nodes: list[str] = []
    for member in members:
        kind = member.get("type") if isinstance(member, Mapping) else None
        if kind not in ("Node", "HyperNode"):
            raise broken(
                f"A member of {name} is neither a Node nor a HyperNode.",
                line_of(text, f"name: {name}"),
            )
        selector = member.get("selector") or {}
        found = _selected(selector, labels, name, text, notes)
        (nodes if kind == "Node" else below).extend(found)
    return Switch(name, tuple(below), tuple(nodes), line_of(text, f"name: {name}"))


def _selected(
    selector: Mapping[str, Any],
    labels: dict[str, dict[str, str]],
    owner: str,
    text: str,
    notes: list[str],
) -> list[str]:
    if "exactMatch" in selector:
        return [str(selector["exactMatch"]["name"])]
    if "regexMatch" in selector:
        return _matching(str(selector["regexMatch"]["pattern"]), labels, owner, text)
    if "labelMatch" in selector:
        wanted = selector["labelMatch"].get("matchLabels") or {}
        found = [
            name
            for name, has in labels.items()
            if all(has.get(key) == value for key, value in wanted.items())
        ]
        if not found:
            notes.append(
                f"{owner} picks its nodes by labels, and no node of the file carries them; it was "
                "left without nodes. Add the nodes to the file."
            )
        return found
    raise broken(f"A member of {owner} has no selector.", line_of(text, f"name: {owner}"))


def _matching(pattern: str, labels: dict[str, dict[str, str]], owner: str, text: str) -> list[str]:
    line = line_of(text, pattern)
    try:
        names = _spelt_out(pattern)
        if names is None and labels and len(pattern) <= 200:
            compiled = re.compile(pattern)
            names = [name for name in labels if compiled.search(name)]
    except re.error as error:
        raise broken(f"{pattern[:60]!r} is no regular expression: {error}.", line) from None
    if names is None:
        raise broken(
            f"The members of {owner} match {pattern[:60]!r}, which stands for any number of names.",
            line,
            "Add the nodes to the file, or name them exactly.",
        )
    return names


_PIECE = re.compile(r"\[([^\]\\^]+)\]|\\d|([A-Za-z0-9_-]|\\[.-])")


def _spelt_out(pattern: str) -> list[str] | None:
    """The names that a pattern of plain letters, classes and digits stands for; None otherwise."""
    inner = re.fullmatch(r"\^(.*)\$", pattern)
    if inner is None:
        return None
    choices: list[list[str]] = []
    position, body = 0, inner[1]
    while position < len(body):
        piece = _PIECE.match(body, position)
        if piece is None or body[piece.end() : piece.end() + 1] in ("*", "+", "?", "{"):
            return None
        if piece[1] is not None:
            choices.append(_members(piece[1]))
        else:
            choices.append(list("0123456789") if piece[2] is None else [piece[2][-1]])
        position = piece.end()
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST_NAMES:
        return None
    return ["".join(letters) for letters in itertools.product(*choices)]


def _members(letters: str) -> list[str]:
    """The letters of a class such as ``2-5x``."""
    found = []
    for low, high, single in re.findall(r"(.)-(.)|(.)", letters):
        found.extend([single] if single else [chr(c) for c in range(ord(low), ord(high) + 1)])
    return found
