"""Reads what people write about a cluster's network into bytes per second and device."""

from __future__ import annotations

import re

_PREFIX = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}

_PORT_RATES = {"edr": 100e9, "hdr": 200e9, "ndr": 400e9, "xdr": 800e9}
"""Bits per second of one four-lane InfiniBand port (InfiniBand Trade Association roadmap)."""

_RATE = re.compile(
    r"""(?<![\w.])(?:(?P<count>\d{1,4})\s*[x×*]\s*)?
        (?P<number>\d{1,6}(?:\.\d+)?)\s*-?\s*
        (?P<prefix>[kKmMgGtT])
        (?:(?P<bytes>B(?:ytes?)?|bytes?)(?:/s(?:ec)?|ps) | (?:[bB]its?|b)?(?:E|/s(?:ec)?|ps)?)
        (?![A-Za-z0-9])
        (?:\s*[x×*]\s*(?P<count_after>\d{1,4}))?""",
    re.VERBOSE,
)
_PORT = re.compile(
    r"(?<!\w)(?:(?P<count>\d{1,4})\s*[x×*]\s*)?(?P<port>edr|hdr|ndr|xdr)(?:-?\d+)?(?!\w)",
    re.IGNORECASE,
)
_PER_DEVICE = re.compile(
    r"(?:/|\bper[\s-]+|\beach[\s-]+)\s*"
    r"(?:gpu|npu|tpu|device|accelerator|accel|chip|card|die|gcd|rank)s?\b",
    re.IGNORECASE,
)
_PER_NODE = re.compile(
    r"(?:/|\bper[\s-]+|\beach[\s-]+)\s*(?:node|host|server|machine|system)s?\b", re.IGNORECASE
)
_INSIDE = re.compile(r"nvlink|nvswitch|\bnvl\d+|xgmi|hccs|infinity|pcie|\bintra", re.IGNORECASE)


def bytes_per_second(text: str, devices_per_node: int, usual: float) -> float | None:
    """One device's share of the network, one direction; None if the text states no rate.

    Reads such texts as ``400 Gb/s InfiniBand per GPU``, ``8x200G HDR``, ``4x100G Omni-Path/node``,
    ``1.6 Tb/s per node`` or ``8x NDR``. A bare G means gigabits per second, as network cards are
    named; what is said of links inside the node (NVLink, PCIe ...) is passed over. ``n x rate``
    counts the cards of a node. A single rate that does not say whose it is is taken for the device
    if it is within a factor of two of ``usual``, the device's usual share, else for the node.

    Args:
        text: The description.
        devices_per_node: Devices that share a node's cards.
        usual: The device's usual share, in bytes per second.
    """
    for part in re.split(r"[+,;]|\band\b", text):
        if _INSIDE.search(part):
            continue
        found = _rate(part)
        if found is not None and found[0] > 0:
            bits, count = found
            return _share(part, bits / 8.0, count, devices_per_node, usual)
    return None


def _rate(part: str) -> tuple[float, int | None] | None:
    """Bits per second of one card or link, and how many of them where the text says so."""
    match = _RATE.search(part)
    if match:
        width = 8 if match["bytes"] else 1
        bits = float(match["number"]) * _PREFIX[match["prefix"].lower()] * width
        count = match["count"] or match["count_after"]
        return bits, int(count) if count else None
    port = _PORT.search(part)
    if port:
        return _PORT_RATES[port["port"].lower()], int(port["count"]) if port["count"] else None
    return None


def _share(part: str, rate: float, count: int | None, devices_per_node: int, usual: float) -> float:
    total = rate * (count or 1)
    if _PER_DEVICE.search(part):
        return total
    if _PER_NODE.search(part) or count is not None:
        return total / devices_per_node
    return total if usual / 2 <= total <= usual * 2 else total / devices_per_node
