"""From an imported topology to the cluster of a request, and what had to be taken for it.

What the caller states goes before what the file says, and what the file says before the catalogue.
What neither says and no catalogue can know is asked for, by the name of the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from solver import request
from solver.cluster.device import device
from solver.cluster.readers.read import read_topology
from solver.cluster.topology import Node, Topology
from solver.errors import BadRequest


def described(asked: request.Cluster) -> tuple[request.Cluster, tuple[str, ...]]:
    """The cluster of a request by device and node count, whatever form it was given in.

    Returns the cluster and what was assumed for it.

    Raises:
        BadRequest: The topology cannot be read, leaves something open, or has too few nodes.
    """
    if asked.name is not None:
        raise BadRequest(
            f"The cluster {asked.name[:80]!r} is stored with a service, which this solver is not.",
            field="cluster.name",
            hint="Ask the service that stores it (--server, or --store for its database), or give "
            "cluster.topology.",
        )
    if asked.topology is None:
        return asked, ()
    return of_topology(read_topology(asked.topology), asked)


def of_topology(
    topology: Topology, asked: request.Cluster
) -> tuple[request.Cluster, tuple[str, ...]]:
    """The same for a topology that has been read."""
    nodes = _nodes(topology, asked)
    name = _device(nodes, asked)
    per_node = _devices_per_node(nodes, asked)
    unit = device(name)
    if asked.nodes is not None and asked.nodes > len(nodes) and not topology.of_one_node:
        raise BadRequest(
            f"The topology has {len(nodes)} nodes of {name} that may be used; {asked.nodes} are "
            "asked for.",
            field="cluster.nodes",
            hint=f"Give at most {len(nodes)}, or leave it out for all.",
        )
    notes = [*topology.notes, *_left_out(topology, nodes, name)]
    rate = asked.inter_node_bytes_per_second
    if rate is None and asked.fabric is None:
        rate = topology.inter_node_bytes_per_second
        if rate is None:
            notes.append(
                f"The file states no rate of the network; {unit.inter_node_bytes_per_second:.3g} "
                f"bytes per second and device, usual for {name}, were taken. "
                "cluster.inter_node_bytes_per_second states another."
            )
    notes.append(
        f"Links inside a node are those of {name} in the device catalogue: {unit.intra_node_link}."
    )
    switches = asked.switches or leaf_level(
        (node.leaf for node in nodes), topology.oversubscription
    )
    if switches and not asked.switches:
        notes.append(
            f"Leafs of {switches[0].nodes} nodes whose links upwards carry 1/"
            f"{switches[0].oversubscription:g} of what the nodes send; cluster.switches states "
            "others."
        )
    explicit = asked.model_copy(
        update={
            "topology": None,
            "switches": switches,
            "device": name,
            "nodes": asked.nodes or len(nodes),
            "devices_per_node": per_node,
            "inter_node_bytes_per_second": rate,
        }
    )
    return explicit, tuple(notes)


def leaf_level(
    leafs: Iterable[str | None], oversubscription: float | None
) -> list[request.SwitchLevel] | None:
    """The leafs, each with as many nodes as most have, where their uplinks are oversubscribed.

    ``leafs``: of each node that may be used, the switch that it is plugged into.
    """
    sizes = Counter(Counter(leaf for leaf in leafs if leaf is not None).values())
    if oversubscription is None or not sizes:
        return None
    common = min(sizes, key=lambda size: (-sizes[size], size))
    return [request.SwitchLevel(nodes=common, oversubscription=oversubscription)]


def usable_nodes(topology: Topology, asked: request.Cluster) -> tuple[Node, ...]:
    """The nodes of a topology that a request's cluster may use, of one device type.

    Raises:
        BadRequest: There are none, or of several types and none is named.
    """
    return _nodes(topology, asked)


def _nodes(topology: Topology, asked: request.Cluster) -> tuple[Node, ...]:
    nodes = topology.available
    kinds = dict.fromkeys(node.device or node.product for node in nodes)
    if asked.device is not None and len(kinds) > 1:
        nodes = tuple(node for node in nodes if node.device in (asked.device, None))
        kinds = dict.fromkeys(node.device or node.product for node in nodes)
    if not nodes:
        raise BadRequest(
            "No node of the topology may be used: all are down, drained, cordoned or of another "
            "device.",
            field="cluster.topology",
        )
    if len(kinds) > 1 and asked.device is None:
        names = ", ".join(str(kind) for kind in kinds if kind)
        raise BadRequest(
            f"The topology has nodes of several kinds: {names}.",
            field="cluster.device",
            hint="Give cluster.device to plan on one of them.",
        )
    return nodes


def _device(nodes: tuple[Node, ...], asked: request.Cluster) -> str:
    if asked.device is not None:
        return asked.device
    if nodes[0].device is not None:
        return nodes[0].device
    called = f" It calls them {nodes[0].product!r}." if nodes[0].product else ""
    raise BadRequest(
        f"The file does not say which device its nodes have.{called}",
        field="cluster.device",
        hint="Give cluster.device, the name of a device of the catalogue, such as H100-SXM5-80GB.",
    )


def _devices_per_node(nodes: tuple[Node, ...], asked: request.Cluster) -> int:
    stated = {node.devices for node in nodes if node.devices is not None}
    if asked.devices_per_node is not None:
        if stated and stated != {asked.devices_per_node}:
            raise BadRequest(
                f"The file's nodes have {_counts(stated)} devices, not {asked.devices_per_node}.",
                field="cluster.devices_per_node",
                hint="Leave it out.",
            )
        return asked.devices_per_node
    if not stated:
        raise BadRequest(
            "The file does not say how many devices a node has.",
            field="cluster.devices_per_node",
            hint="Give cluster.devices_per_node.",
        )
    if len(stated) > 1:
        raise BadRequest(
            f"The file's nodes have {_counts(stated)} devices; a plan needs nodes that are alike.",
            field="cluster.topology",
            hint="Give the nodes of one kind only.",
        )
    return stated.pop()


def _left_out(topology: Topology, nodes: tuple[Node, ...], name: str) -> list[str]:
    notes = []
    down = len(topology.nodes) - len(topology.available)
    if down:
        notes.append(f"{down} of {len(topology.nodes)} nodes are not available and left out.")
    others = len(topology.available) - len(nodes)
    if others:
        notes.append(f"{others} nodes of other devices than {name} are left out.")
    return notes


def _counts(counts: set[int]) -> str:
    return " and ".join(str(count) for count in sorted(counts))
