"""The project's own form of a topology: what an import answers, and can be given again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from solver.cluster.readers.broken import broken
from solver.cluster.topology import Node, Topology

FORMAT = "stagecut"


class NodeDocument(BaseModel):
    """One node of a topology."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=253, description="As the scheduler calls it.")
    path: list[str] = Field(
        default_factory=list, max_length=16, description="Switches above it, nearest first."
    )
    domain: str | None = Field(default=None, description="NVLink domain larger than a node.")
    device: str | None = Field(default=None, description="Name in the device catalogue.")
    product: str | None = Field(
        default=None, description="What the file called it, where that names no device."
    )
    devices: int | None = Field(default=None, ge=1, le=1024, description="Devices of the node.")
    available: bool = Field(default=True, description="Whether jobs may run on it.")


class TopologyDocument(BaseModel):
    """A topology in the project's own form."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: list[NodeDocument] = Field(min_length=1, max_length=65_536)
    formats: list[str] = Field(default_factory=list, description="Formats it was read from.")
    inter_node_bytes_per_second: float | None = Field(
        default=None, gt=0, description="Per device, one direction; null if not known."
    )
    oversubscription: float | None = Field(
        default=None, ge=1, description="A leaf's node-side rate over its uplinks' rate."
    )
    link_groups: list[list[int]] = Field(
        default_factory=list, description="Devices of a node that NVLink joins."
    )
    of_one_node: bool = Field(default=False, description="Describes the inside of a node only.")
    notes: list[str] = Field(
        default_factory=list, description="What the reader of the files should know."
    )


def reads(value: Any) -> bool:
    """Whether the JSON value looks like this format."""
    return isinstance(value, Mapping) and isinstance(value.get("nodes"), list)


def read(value: Any) -> Topology:
    """The topology of the document.

    Raises:
        BrokenFile: It does not fit the form.
    """
    try:
        document = TopologyDocument.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
        raise broken(f"{path.removeprefix('.')}: {first['msg']}.") from None
    names = [node.name for node in document.nodes]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise broken(f"The node {twice} is listed twice.")
    return Topology(
        nodes=tuple(
            Node(
                node.name,
                tuple(node.path),
                node.domain,
                node.device,
                node.product,
                node.devices,
                node.available,
            )
            for node in document.nodes
        ),
        formats=tuple(document.formats) or (FORMAT,),
        inter_node_bytes_per_second=document.inter_node_bytes_per_second,
        oversubscription=document.oversubscription,
        link_groups=tuple(tuple(group) for group in document.link_groups),
        of_one_node=document.of_one_node,
        notes=tuple(document.notes),
    )


def write(topology: Topology) -> TopologyDocument:
    """The document of a topology; reading it gives the same topology again."""
    return TopologyDocument(
        nodes=[
            NodeDocument(
                name=node.name,
                path=list(node.path),
                domain=node.domain,
                device=node.device,
                product=node.product,
                devices=node.devices,
                available=node.available,
            )
            for node in topology.nodes
        ],
        formats=list(topology.formats),
        inter_node_bytes_per_second=topology.inter_node_bytes_per_second,
        oversubscription=topology.oversubscription,
        link_groups=[list(group) for group in topology.link_groups],
        of_one_node=topology.of_one_node,
        notes=list(topology.notes),
    )
