"""A cluster: how many of which device, how they are joined, and the memory that may be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import gcd

from solver import request
from solver.cluster import fabric
from solver.cluster.device import Device, device
from solver.cluster.host import HostShare, host_share
from solver.cluster.imported import described
from solver.errors import BadRequest


class FabricBasis(StrEnum):
    """Where a cluster's inter-node bandwidth comes from."""

    REQUEST = "request"
    FABRIC_TEXT = "fabric text"
    DEVICE_DEFAULT = "device default"


@dataclass(frozen=True)
class SwitchLevel:
    """One level of switches above nodes: ``devices`` below each, and what its uplinks carry.

    ``share``: of its own cards' rate, what a device has of the links above this level while all
    devices send upwards.
    """

    devices: int
    share: float


@dataclass(frozen=True)
class Cluster:
    """``nodes`` equal nodes of ``devices_per_node`` devices.

    ``memory_bytes``: usable bytes per device. ``inter_node_bytes_per_second``: one device's share
    of its node's network, one direction. ``domain_size``: consecutive devices that the fast links
    join, a multiple of the node where they reach beyond it (72 for NVL72). ``notes``: what was
    assumed of an imported topology. ``pools``: where devices differ, each kind as a cluster of its
    own; the other fields then say what holds in all of them. ``switches``: levels of switches whose
    uplinks carry less than what is below them sends, from the leafs up; of a pool also those that
    only what goes to another pool passes. ``host``: a device's share
    of its host.
    """

    device: Device
    nodes: int
    devices_per_node: int
    memory_bytes: float
    inter_node_bytes_per_second: float
    domain_size: int
    fabric_basis: FabricBasis = FabricBasis.DEVICE_DEFAULT
    notes: tuple[str, ...] = ()
    pools: tuple[Cluster, ...] = ()
    switches: tuple[SwitchLevel, ...] = ()
    host: HostShare | None = None

    @property
    def devices(self) -> int:
        """All devices of the cluster."""
        return self.nodes * self.devices_per_node

    @property
    def devices_per_switch(self) -> tuple[int, ...]:
        """Devices below one switch of each level."""
        return tuple(level.devices for level in self.switches)


def cluster_from_request(
    asked: request.Cluster, *, pools: bool = False, goes_on: bool = False
) -> Cluster:
    """The cluster that a request describes by device and node count, by its topology, or where
    ``pools`` are taken by pools of different devices.

    ``goes_on``: there are devices beyond it, which are reached through all of its switches.

    Raises:
        BadRequest: ``device``, ``nodes`` or ``devices_per_node`` is missing, the topology cannot be
            read, or the cluster is given by a name that only a service knows.
        UnknownName: No such device.
    """
    if asked.pools is not None:
        if pools:
            return _of_pools(asked.pools)
        raise BadRequest(
            "Pools of different devices are planned and evaluated; this is told of one kind.",
            field="cluster.pools",
            hint="Give cluster.device and cluster.nodes.",
        )
    asked, notes = described(asked)
    unit = _device(asked)
    nodes = _required(asked.nodes, "nodes")
    per_node = _required(asked.devices_per_node, "devices_per_node")
    bandwidth, basis = _inter_node(asked, unit, per_node)
    domain = _domain(unit, nodes, per_node)
    return Cluster(
        device=unit,
        nodes=nodes,
        devices_per_node=per_node,
        memory_bytes=asked.memory_bytes or unit.memory_bytes,
        inter_node_bytes_per_second=bandwidth,
        domain_size=domain,
        fabric_basis=basis,
        notes=notes,
        switches=_switches(asked.switches or [], nodes, per_node, domain, goes_on),
        host=host_share(asked, unit),
    )


def _of_pools(asked: list[request.Pool]) -> Cluster:
    """Pools as one cluster, whose node and domain are the smallest that all have."""
    found = []
    for number, pool in enumerate(asked):
        try:
            found.append(_pool(pool))
        except BadRequest as error:
            field = (error.field or "").replace("cluster.", f"cluster.pools[{number}].", 1)
            raise type(error)(error.detail, field=field, hint=error.hint) from error
    each = gcd(*(pool.devices_per_node for pool in found))
    return replace(
        found[0],
        nodes=sum(pool.devices for pool in found) // each,
        devices_per_node=each,
        memory_bytes=min(pool.memory_bytes for pool in found),
        inter_node_bytes_per_second=min(pool.inter_node_bytes_per_second for pool in found),
        domain_size=min(pool.domain_size for pool in found),
        pools=tuple(found),
        switches=(),
    )


def _pool(asked: request.Pool) -> Cluster:
    return cluster_from_request(request.Cluster(**asked.model_dump()), goes_on=True)


def memory_capacity(asked: request.Cluster) -> float:
    """Usable bytes per device, all that a model given as a profile needs to know of its cluster.

    Raises:
        BadRequest: Neither ``memory_bytes`` nor a device is given.
        UnknownName: No such device.
    """
    if asked.name is not None or asked.topology is not None:
        asked, _ = described(asked)
    unit = None if asked.device is None else device(asked.device)
    if asked.memory_bytes is not None:
        return asked.memory_bytes
    if unit is None:
        raise BadRequest(
            "The memory of the devices is not given.",
            field="cluster.memory_bytes",
            hint="Give cluster.memory_bytes, or a cluster.device of the catalogue.",
        )
    return unit.memory_bytes


def _device(asked: request.Cluster) -> Device:
    if asked.device is None:
        raise BadRequest(
            "The device is not given.",
            field="cluster.device",
            hint="Give the name of a device of the catalogue, such as H100-SXM5-80GB.",
        )
    return device(asked.device)


def _required(value: int | None, name: str) -> int:
    if value is None:
        raise BadRequest(
            f"{name} is not given.", field=f"cluster.{name}", hint="Give a whole number from 1 up."
        )
    return value


def _inter_node(
    asked: request.Cluster, unit: Device, devices_per_node: int
) -> tuple[float, FabricBasis]:
    usual = unit.inter_node_bytes_per_second
    if asked.inter_node_bytes_per_second is not None:
        return asked.inter_node_bytes_per_second, FabricBasis.REQUEST
    if asked.fabric is not None:
        read = fabric.bytes_per_second(asked.fabric, devices_per_node, usual)
        if read is not None:
            return read, FabricBasis.FABRIC_TEXT
    return usual, FabricBasis.DEVICE_DEFAULT


def _domain(unit: Device, nodes: int, devices_per_node: int) -> int:
    """The node, or as many whole nodes as the device's links join (NVL72: 72 devices)."""
    joined = min(unit.scale_up_size // devices_per_node, nodes)
    return max(1, joined) * devices_per_node


def _switches(
    asked: Sequence[request.SwitchLevel],
    nodes: int,
    devices_per_node: int,
    domain: int,
    goes_on: bool,
) -> tuple[SwitchLevel, ...]:
    """Those levels that slow somebody down: with several switches, or where the cluster ``goes_on``
    beyond it, and less rate above than below.

    Raises:
        BadRequest: A switch has fewer nodes below it than one of the level before, or than an
            NVLink domain.
    """
    found, share, below = [], 1.0, 0
    for number, level in enumerate(asked):
        field = f"cluster.switches[{number}].nodes"
        if level.nodes <= below:
            raise BadRequest(
                f"A switch of this level has {level.nodes} nodes below it, one of the level before "
                f"{below}.",
                field=field,
                hint="Give the levels from the leafs up, each with more nodes than the last.",
            )
        if level.nodes * devices_per_node < domain:
            raise BadRequest(
                f"Fast links join {domain} devices, more than the {level.nodes} nodes below a "
                "switch have.",
                field=field,
                hint=f"Give {-(-domain // devices_per_node)} or more.",
            )
        share, below = share / level.oversubscription, level.nodes
        if (goes_on or level.nodes < nodes) and share < 1.0:
            found.append(SwitchLevel(level.nodes * devices_per_node, share))
    return tuple(found)
