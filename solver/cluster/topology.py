"""A cluster's fabric as a format describes it: nodes, the switches above them, who shares NVLink.

A topology may know less than a plan needs: whatever a format leaves out is None, and is asked for
or taken from the device catalogue where a cluster is made of it (``solver.cluster.imported``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from solver.errors import BadRequest


@dataclass(frozen=True)
class Node:
    """One node. ``path``: the switches above it, nearest first (leaf, spine, core).

    ``domain``: name of the NVLink domain that it shares with other nodes. ``device``: name in the
    device catalogue; ``product``: what the format called it where that names no device.
    ``devices``: how many. ``available``: whether jobs may run on it.
    """

    name: str
    path: tuple[str, ...] = ()
    domain: str | None = None
    device: str | None = None
    product: str | None = None
    devices: int | None = None
    available: bool = True

    @property
    def leaf(self) -> str | None:
        """The switch it is plugged into."""
        return self.path[0] if self.path else None

    @property
    def spine(self) -> str | None:
        """The switch above its leaf."""
        return self.path[1] if len(self.path) > 1 else None


@dataclass(frozen=True)
class Topology:
    """Nodes in the order of their file, and what is known of the links.

    ``inter_node_bytes_per_second``: one device's share of its node's cards, one direction.
    ``oversubscription``: a leaf's node-side rate over its uplinks' rate.
    ``link_groups``: devices of one node that NVLink joins, by their number; empty if not said.
    ``of_one_node``: the file describes the inside of a node, not which nodes there are.
    ``notes``: what the reader of the file should know.
    """

    nodes: tuple[Node, ...]
    formats: tuple[str, ...]
    inter_node_bytes_per_second: float | None = None
    oversubscription: float | None = None
    link_groups: tuple[tuple[int, ...], ...] = ()
    of_one_node: bool = False
    notes: tuple[str, ...] = ()

    @property
    def leafs(self) -> tuple[str, ...]:
        """Leaf switches in the order of their first node."""
        return _distinct(node.leaf for node in self.nodes)

    @property
    def spines(self) -> tuple[str, ...]:
        """Switches above the leafs, likewise."""
        return _distinct(node.spine for node in self.nodes)

    @property
    def domains(self) -> tuple[str, ...]:
        """NVLink domains that are larger than a node."""
        return _distinct(node.domain for node in self.nodes)

    @property
    def available(self) -> tuple[Node, ...]:
        """Nodes that jobs may run on."""
        return tuple(node for node in self.nodes if node.available)


def merged(parts: list[Topology]) -> Topology:
    """Several files about one cluster as one topology: fabric from one, inventory from another.

    The nodes are those of the first file that lists any; later files fill what earlier ones leave
    open. A file about the inside of a node is held against every node.

    Raises:
        BadRequest: The files name no node in common.
    """
    listing = [part for part in parts if not part.of_one_node]
    if not listing:
        return parts[0] if len(parts) == 1 else _inside(parts[0], parts[1:])
    whole = listing[0]
    for part in listing[1:]:
        whole = _joined(whole, part)
    return _inside(whole, [part for part in parts if part.of_one_node])


def _joined(whole: Topology, part: Topology) -> Topology:
    known = {node.name: node for node in part.nodes}
    missing = [node.name for node in whole.nodes if node.name not in known]
    if len(missing) == len(whole.nodes):
        raise BadRequest(
            f"The files have no node in common: {whole.nodes[0].name[:60]!r} is only in the one, "
            f"{part.nodes[0].name[:60]!r} only in the other.",
            field="files",
            hint="Give files of the same cluster that call its nodes alike.",
        )
    notes = [*whole.notes, *part.notes]
    if missing:
        notes.append(
            f"{len(missing)} of {len(whole.nodes)} nodes are in {whole.formats[0]} only, "
            f"{missing[0]} first; they count as available."
        )
    return replace(
        whole,
        nodes=tuple(_filled(node, known.get(node.name, node)) for node in whole.nodes),
        formats=(*whole.formats, *part.formats),
        inter_node_bytes_per_second=whole.inter_node_bytes_per_second
        or part.inter_node_bytes_per_second,
        oversubscription=whole.oversubscription or part.oversubscription,
        notes=tuple(notes),
    )


def _filled(node: Node, other: Node) -> Node:
    return replace(
        node,
        path=node.path or other.path,
        domain=node.domain or other.domain,
        device=node.device or other.device,
        product=node.product or other.product,
        devices=node.devices or other.devices,
        available=node.available and other.available,
    )


def _inside(whole: Topology, parts: list[Topology]) -> Topology:
    for part in parts:
        inner = part.nodes[0]
        whole = replace(
            whole,
            nodes=tuple(
                replace(
                    node,
                    device=node.device or inner.device,
                    product=node.product or inner.product,
                    devices=node.devices or inner.devices,
                )
                for node in whole.nodes
            ),
            formats=(*whole.formats, *part.formats),
            inter_node_bytes_per_second=whole.inter_node_bytes_per_second
            or part.inter_node_bytes_per_second,
            link_groups=whole.link_groups or part.link_groups,
            notes=(*whole.notes, *part.notes),
        )
    return whole


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))
