"""Ascend rank tables (``hccl.json``): servers, their devices, and super pods from version 1.2 on.

Huawei, HCCL documentation, "rank table configuration": ``server_list[].device[]`` with
``device_id``, ``device_ip`` and ``rank_id``, all strings; ``super_pod_list[].server_list[]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solver.cluster.readers.broken import broken, line_of
from solver.cluster.topology import Node, Topology

FORMAT = "ascend-rank-table"


def reads(value: Any) -> bool:
    """Whether the JSON value looks like this format."""
    return isinstance(value, Mapping) and isinstance(value.get("server_list"), list)


def read(value: Any, text: str) -> Topology:
    """A node per server, in the order of the table.

    Raises:
        BrokenFile: A server without id or devices, a rank that is given twice, or a count that the
            table contradicts.
    """
    pods = _pods(value, text)
    nodes: list[Node] = []
    ranks: set[int] = set()
    for server in value["server_list"]:
        name = server.get("server_id") if isinstance(server, Mapping) else None
        if not isinstance(name, str) or not name:
            raise broken(
                "An entry of `server_list` has no `server_id`.", line_of(text, "server_list")
            )
        devices = server.get("device")
        if not isinstance(devices, list) or not devices:
            raise broken(f"The server {name} has no devices.", line_of(text, f'"{name}"'))
        for device in devices:
            rank = str(device.get("rank_id", "")) if isinstance(device, Mapping) else ""
            if not rank.isdecimal() or int(rank) in ranks:
                raise broken(
                    f"The server {name} has a device with no rank of its own.",
                    line_of(text, f'"{name}"'),
                )
            ranks.add(int(rank))
        nodes.append(Node(name, domain=pods.get(name), devices=len(devices)))
    stated = str(value.get("server_count", len(nodes)))
    if stated != str(len(nodes)):
        raise broken(
            f"`server_count` is {stated[:20]}, but the table lists {len(nodes)} servers.",
            line_of(text, "server_count"),
        )
    if not nodes:
        raise broken("There are no servers.", line_of(text, "server_list"))
    return Topology(
        nodes=tuple(nodes),
        formats=(FORMAT,),
        notes=("A rank table says nothing of switches; its servers count as one leaf.",),
    )


def _pods(value: Mapping[str, Any], text: str) -> dict[str, str]:
    """The super pod of every server."""
    found: dict[str, str] = {}
    for pod in value.get("super_pod_list") or []:
        if not isinstance(pod, Mapping) or "super_pod_id" not in pod:
            raise broken(
                "An entry of `super_pod_list` has no `super_pod_id`.",
                line_of(text, "super_pod_list"),
            )
        for server in pod.get("server_list") or []:
            found[str(server.get("server_id"))] = str(pod["super_pod_id"])
    return found
