"""What ``scontrol show nodes --json`` prints: names, states and generic resources.

Field names: Slurm's data_parser (src/plugins/data_parser, NODE).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from solver.cluster.readers.broken import broken, line_of
from solver.cluster.readers.products import device_of_product
from solver.cluster.topology import Node, Topology

FORMAT = "slurm-nodes-json"

_GPUS = re.compile(r"^(?:gpu|npu)(?::(?P<type>[^:()]+))?:(?P<count>\d+)(?:\(.*\))?$")
_OUT = {"DOWN", "DRAIN", "FAIL", "FUTURE", "MAINT", "NOT_RESPONDING", "POWERED_DOWN", "UNKNOWN"}


def reads(value: Any) -> bool:
    """Whether the JSON value looks like this format."""
    return isinstance(value, Mapping) and isinstance(value.get("nodes"), list) and "meta" in value


def read(value: Any, text: str) -> Topology:
    """All nodes with generic resources of kind gpu or npu; the others are left out.

    Raises:
        BrokenFile: A node has no name, or resources that cannot be read.
    """
    nodes, without = [], 0
    for item in value["nodes"]:
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            raise broken("An entry of `nodes` has no `name`.", line_of(text, '"nodes"'))
        found = _devices(item, text)
        if found is None:
            without += 1
            continue
        product, count = found
        device = device_of_product(product) if product else None
        states = {str(state).upper() for state in _list(item.get("state"))}
        nodes.append(
            Node(
                item["name"],
                device=device,
                product=product if device is None else None,
                devices=count,
                available=not states & _OUT,
            )
        )
    if not nodes:
        raise broken("No node has generic resources (gres) of kind gpu or npu.")
    notes = [f"{without} nodes without gpu or npu were left out."] if without else []
    return Topology(nodes=tuple(nodes), formats=(FORMAT,), notes=tuple(notes))


def _devices(item: Mapping[str, Any], text: str) -> tuple[str | None, int] | None:
    gres = item.get("gres") or ""
    parts = re.split(r",(?![^(]*\))", gres) if isinstance(gres, str) else []
    for part in parts:
        if not part.startswith(("gpu", "npu")):
            continue
        match = _GPUS.match(part)
        if match is None:
            raise broken(
                f"The gres {part[:60]!r} of {item['name']} cannot be read.", line_of(text, part)
            )
        return match["type"], int(match["count"])
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
