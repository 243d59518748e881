"""The host of a device: its link and memory, as activations that are offloaded may use them.

``hosts.csv`` says how nodes of a device are usually built, each row with its source; the link's
nominal rate stands in ``devices.csv``. What of either is to be had is in
``costs/calibration/offload.json``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from solver import request
from solver.cluster.device import Device

_GIGA = 1e9
_ANY = "*"


@dataclass(frozen=True)
class HostShare:
    """One device's share of its host while all devices of the node use theirs.

    ``bytes_per_second``: the nominal rate of the link, one direction, None where unknown.
    ``stated``: which of the two the request states, so that nothing is to be taken off.
    """

    bytes_per_second: float | None
    memory_bytes: float
    stated: frozenset[str] = frozenset()


def host_share(asked: request.Cluster, unit: Device) -> HostShare:
    """What a request says of the hosts, and the usual for the device where it says nothing."""
    rows = _hosts()
    usual = rows.get(unit.name, rows[_ANY])
    link, memory = asked.host_bytes_per_second, asked.host_memory_bytes
    stated = {"bytes_per_second": link, "memory_bytes": memory}
    nominal = unit.host_bytes_per_second
    return HostShare(
        bytes_per_second=link or (None if nominal is None else nominal / usual.devices_per_link),
        memory_bytes=usual.memory_bytes if memory is None else memory,
        stated=frozenset(name for name, value in stated.items() if value is not None),
    )


@dataclass(frozen=True)
class _Usual:
    """``devices_per_link``: devices behind one link of the host."""

    devices_per_link: int
    memory_bytes: float


@cache
def _hosts() -> dict[str, _Usual]:
    text = files("solver.cluster").joinpath("hosts.csv").read_text(encoding="utf-8")
    return {
        row["name"]: _Usual(int(row["devices_per_link"]), float(row["memory_gb"]) * _GIGA)
        for row in csv.DictReader(text.splitlines())
    }
