"""topograph's ``graph`` output: instances with their network layers, nearest first.

NVIDIA/topograph, docs/engines/graph.md; labels as in docs/reference/node-labels.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver.cluster.readers.broken import broken, line_of
from solver.cluster.topology import Node, Topology

FORMAT = "topograph"

_DOMAIN = "accelerator.topograph.run/domain"


def reads(value: Any) -> bool:
    """Whether the JSON value looks like this format."""
    return isinstance(value, Mapping) and isinstance(value.get("instances"), list)


def read(value: Any, text: str) -> Topology:
    """The topology of the answer.

    Raises:
        BrokenFile: An instance without id, twice the same, or layers that are no names.
    """
    nodes: dict[str, Node] = {}
    for item in value["instances"]:
        name = item.get("id") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name:
            raise broken("An instance has no `id`.", line_of(text, "instances"))
        if name in nodes:
            raise broken(f"The instance {name} is listed twice.", line_of(text, f'"{name}"'))
        layers = item.get("network_layers") or []
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            raise broken(
                f"The network layers of {name} are no list of names.", line_of(text, f'"{name}"')
            )
        domain = (item.get("labels") or {}).get(_DOMAIN)
        nodes[name] = Node(name, path=tuple(layers), domain=domain)
    if not nodes:
        raise broken("There are no instances.", line_of(text, "instances"))
    return Topology(nodes=tuple(nodes.values()), formats=(FORMAT,))
