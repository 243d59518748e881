"""Clusters: imported from the files of schedulers and fabrics, and named by requests.

A request that names a stored cluster is answered as if it described it: what the plan depends on is
put in the name's place before anything else happens, so it is part of the plan's identity.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.problems import CLUSTER, ProblemError, problem
from solver import request
from solver.cluster.device import device
from solver.cluster.imported import leaf_level, of_topology
from solver.cluster.readers.own import TopologyDocument, read, write
from solver.cluster.readers.read import read_topology
from solver.cluster.topology import Topology, merged
from solver.errors import BadRequest
from solver.request import PlanRequest
from solver.strict import Name, Strict

ClusterName = Annotated[str, Field(min_length=1, max_length=100, pattern=CLUSTER)]


class TopologyFile(Strict):
    """One file about a cluster."""

    content: JsonValue = Field(description="The file's text, or the value of a JSON file.")
    format: str | None = Field(default=None, description="Its format; recognised if absent.")
    part: str | None = Field(
        default=None, description="Of a file of several topologies, the one that is meant."
    )


class ClusterImport(Strict):
    """A cluster to be stored: its files, and what they do not say."""

    name: ClusterName = Field(description="How requests will call it.")
    files: list[TopologyFile] = Field(
        min_length=1,
        max_length=8,
        description="Fabric first; later files fill what it leaves open.",
    )
    device: Name | None = Field(
        default=None, description="Device of its nodes, where no file says it."
    )
    devices_per_node: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Devices of a node, where no file says it."
    )
    nodes: request.Count | None = Field(
        default=None, description="Nodes, where the files describe the inside of one only."
    )
    fabric: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, description="Network between the nodes in words."
    )
    inter_node_bytes_per_second: (
        Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)] | None
    ) = Field(default=None, description="Per device, one direction; overrides `fabric`.")
    oversubscription: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] | None = Field(
        default=None, description="A leaf's node-side rate over its uplinks' rate."
    )


class ClusterDocument(BaseModel):
    """A stored cluster: what was understood, what was assumed, and every node."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="How requests call it.")
    device: str = Field(description="Of its nodes, as the catalogue calls it.")
    nodes: int = Field(description="Nodes that plans may use.")
    devices_per_node: int = Field(description="Devices of a node.")
    leafs: int = Field(description="Switches that nodes are plugged into.")
    spines: int = Field(description="Switches above the leafs.")
    domains: int = Field(description="NVLink domains that are larger than a node.")
    inter_node_bytes_per_second: float = Field(description="Per device, one direction.")
    oversubscription: float | None = Field(
        description="A leaf's node-side rate over its uplinks' rate; null if not known."
    )
    assumed: list[str] = Field(description="What no file said, and what was taken instead.")
    topology: TopologyDocument


class ClusterSummary(BaseModel):
    """A cluster in a list."""

    name: str
    device: str
    nodes: int
    devices_per_node: int = Field(description="Devices of a node.")
    leafs: int


class ClusterList(BaseModel):
    """The stored clusters, by name."""

    clusters: list[ClusterSummary]


def imported(asked: ClusterImport) -> ClusterDocument:
    """The cluster that the files describe.

    Raises:
        BadRequest: A file cannot be read (its number is in the field), or something is left open.
    """
    parts = []
    for number, file in enumerate(asked.files):
        try:
            parts.append(read_topology(file.content, file.format, file.part))
        except BadRequest as error:
            error.field = f"files[{number}]"
            raise
    stated = request.Cluster(
        device=asked.device,
        nodes=asked.nodes,
        devices_per_node=asked.devices_per_node,
        fabric=asked.fabric,
        inter_node_bytes_per_second=asked.inter_node_bytes_per_second,
    )
    try:
        return _document(asked.name, merged(parts), stated, asked.oversubscription)
    except BadRequest as error:
        error.field = (error.field or "").removeprefix("cluster.") or None
        error.hint = (error.hint or "").replace("cluster.", "") or None
        raise


def _document(
    name: str, topology: Topology, stated: request.Cluster, oversubscription: float | None
) -> ClusterDocument:
    from solver.cluster.cluster import cluster_from_request

    explicit, notes = of_topology(topology, stated)
    cluster = cluster_from_request(explicit)
    document = write(topology).model_copy(
        update={
            "inter_node_bytes_per_second": cluster.inter_node_bytes_per_second,
            "oversubscription": oversubscription or topology.oversubscription,
        }
    )
    return ClusterDocument(
        name=name,
        device=cluster.device.name,
        nodes=cluster.nodes,
        devices_per_node=cluster.devices_per_node,
        leafs=len(topology.leafs),
        spines=len(topology.spines),
        domains=len(topology.domains),
        inter_node_bytes_per_second=cluster.inter_node_bytes_per_second,
        oversubscription=document.oversubscription,
        assumed=list(notes),
        topology=document,
    )


def with_cluster(asked: PlanRequest, stored: ClusterDocument) -> PlanRequest:
    """The request with what it names put in the name's place; its own fields go first.

    Raises:
        ProblemError: It asks for more nodes than the cluster has, or for a device that it has not.
    """
    cluster = asked.cluster
    if cluster.nodes is not None and cluster.nodes > stored.nodes:
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request is not well formed",
                f"The cluster {stored.name} has {stored.nodes} nodes; {cluster.nodes} are asked "
                "for.",
                field="cluster.nodes",
                hint=f"Give at most {stored.nodes}, or leave it out for all.",
            )
        )
    if cluster.device not in (None, stored.device):
        device(str(cluster.device))
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "The request is not well formed",
                f"The cluster {stored.name} has {stored.device}, not {cluster.device}.",
                field="cluster.device",
                hint="Leave it out.",
            )
        )
    rate = cluster.inter_node_bytes_per_second
    if rate is None and cluster.fabric is None:
        rate = stored.inter_node_bytes_per_second
    leafs = (
        node.path[0] if node.path else None for node in stored.topology.nodes if node.available
    )
    explicit = cluster.model_copy(
        update={
            "name": None,
            "device": stored.device,
            "nodes": cluster.nodes or stored.nodes,
            "devices_per_node": cluster.devices_per_node or stored.devices_per_node,
            "inter_node_bytes_per_second": rate,
            "switches": cluster.switches or leaf_level(leafs, stored.oversubscription),
        }
    )
    return asked.model_copy(update={"cluster": explicit})


def unknown_cluster(name: str) -> ProblemError:
    """The problem of a name that no stored cluster has."""
    return ProblemError(
        problem(
            404,
            "unknown-cluster",
            "No such cluster",
            f"There is no cluster {name[:100]!r}.",
            field="cluster.name",
            hint="GET /v1/clusters lists what is stored; POST /v1/clusters imports one.",
        )
    )


def topology_of(stored: ClusterDocument) -> Topology:
    """The topology of a stored cluster."""
    return read(stored.topology.model_dump(mode="json"))
