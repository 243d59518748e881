"""Kubernetes nodes (``kubectl get nodes -o json``), placed by the labels in use.

Levels, nearest first, by who wrote the labels: topograph's ``fabric.topograph.run/tier-N``; EKS
``topology.k8s.aws/network-node-layer-3`` to ``-1`` (3 is nearest to the instance); GKE
``cloud.google.com/gce-topology-subblock`` and ``-block``; Volcano's ``volcano.sh/hypernode`` and
``hypercluster``; plain ``rack`` and ``block`` labels. The zone is the last level of all.
Devices: GPU feature discovery's ``nvidia.com/gpu.product`` and ``.count``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from solver.cluster.readers.broken import broken, line_of
from solver.cluster.readers.products import device_of_product
from solver.cluster.topology import Node, Topology

FORMAT = "kubernetes-nodes"

_LEVELS = (
    (
        "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-1",
    ),
    ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
    ("volcano.sh/hypernode", "volcano.sh/hypercluster"),
    ("topology.kubernetes.io/rack", "topology.kubernetes.io/block"),
    ("rack", "block"),
)
_ZONE = "topology.kubernetes.io/zone"
_DOMAINS = ("accelerator.topograph.run/domain", "nvidia.com/gpu.clique")
_PRODUCTS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "accelerator",
    "accelerator-type",
)
_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "google.com/tpu")


def reads(value: Any) -> bool:
    """Whether the JSON value looks like this format."""
    if not isinstance(value, Mapping):
        return False
    items = value.get("items")
    return value.get("kind") == "Node" or (
        isinstance(items, list)
        and any(isinstance(item, Mapping) and item.get("kind") == "Node" for item in items)
    )


def read(value: Any, text: str) -> Topology:
    """All nodes with accelerators; the others are left out.

    Raises:
        BrokenFile: A node has no name, or a count that is none.
    """
    items = value.get("items", [value])
    found = [_node(item, text) for item in items if item.get("kind") == "Node"]
    nodes = tuple(node for node in found if node.devices)
    if not nodes:
        raise broken(
            "No node has accelerators: neither nvidia.com/gpu.count nor an allocatable resource.",
            line_of(text, "items"),
        )
    notes = []
    if len(nodes) < len(found):
        notes.append(f"{len(found) - len(nodes)} nodes without accelerators were left out.")
    if not any(node.path for node in nodes):
        notes.append("No label says where the nodes are; they count as one leaf.")
    return Topology(nodes=nodes, formats=(FORMAT,), notes=tuple(notes))


def labels_of(item: Any, text: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a node.

    Raises:
        BrokenFile: It has no name.
    """
    metadata: Any = item.get("metadata") if isinstance(item, Mapping) else None
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise broken("A Node has no metadata.name.", line_of(text, '"Node"', "Node"))
    labels = metadata.get("labels") or {}
    return name, {str(key): str(entry) for key, entry in labels.items()}


def _node(item: Any, text: str) -> Node:
    name, labels = labels_of(item, text)
    product = next((labels[key] for key in _PRODUCTS if key in labels), None)
    device = device_of_product(product) if product else None
    return Node(
        name,
        path=_path(labels),
        domain=next((labels[key] for key in _DOMAINS if key in labels), None),
        device=device,
        product=product if device is None else None,
        devices=_count(item, labels, name, text),
        available=_available(item),
    )


def _path(labels: dict[str, str]) -> tuple[str, ...]:
    """The switches above a node; the zone closes every path."""
    tiers = sorted(
        (int(match[1]), value)
        for key, value in labels.items()
        if (match := re.fullmatch(r"fabric\.topograph\.run/tier-(\d{1,2})", key))
    )
    levels = [value for _, value in tiers]
    if not levels:
        written = next((keys for keys in _LEVELS if any(key in labels for key in keys)), ())
        levels = [labels[key] for key in written if key in labels]
    if _ZONE in labels:
        levels.append(labels[_ZONE])
    return tuple(levels)


def _count(item: Any, labels: dict[str, str], name: str, text: str) -> int:
    status = item.get("status") or {}
    resources = status.get("allocatable") or status.get("capacity") or {}
    stated = labels.get("nvidia.com/gpu.count") or next(
        (resources[key] for key in _RESOURCES if key in resources), "0"
    )
    if not str(stated).isdecimal():
        raise broken(
            f"{name} has {str(stated)[:40]!r} devices, which is no number.",
            line_of(text, str(stated)),
        )
    return int(stated)


def _available(item: Any) -> bool:
    """Neither cordoned nor reported as not ready."""
    conditions = (item.get("status") or {}).get("conditions") or []
    ready = [entry.get("status") for entry in conditions if entry.get("type") == "Ready"]
    return not (item.get("spec") or {}).get("unschedulable") and ready in ([], ["True"])
