"""The catalogue of accelerators: ``devices.csv``, read once and converted to SI units.

Every row of the table names its source, how sure it is, and its peculiarities. Rates are dense
peaks. Where a device's usable memory is known (what the framework reports as total capacity) it is
taken; elsewhere the marketed size counts as decimal gigabytes. The two differ by up to 8% in
either direction: an "80 GB" H100 offers 79.11 GiB = 84.9e9 bytes, a "64 GB" Ascend 910B 65.5e9.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from solver.errors import BadRequest, UnknownName

_TERA = 1e12
_GIGA = 1e9
_GIB = 1 << 30


@dataclass(frozen=True)
class Device:
    """One accelerator as a program sees it. FLOP/s, bytes, bytes per second and one direction.

    ``half_flops`` is the peak of bf16 and fp16 products (fp16 alone on devices without bf16).
    ``intra_node_bytes_per_second``: all links inside the node (or rack) together.
    ``pair_bytes_per_second``: what two devices reach between themselves.
    ``scale_up_size``: devices joined by those links.
    ``inter_node_bytes_per_second``: one device's usual share of its node's network cards.
    ``measured_half_flops``: best measured matrix product; ``measured_ring_bytes_per_second`` and
    ``measured_switch_bytes_per_second``: bus bandwidth of a large all-reduce inside the node, as a
    ring and reduced by the switch. None where unknown.
    """

    name: str
    vendor: str
    year: int
    form: str
    half_flops: float
    fp8_flops: float | None
    fp32_flops: float | None
    memory_bytes: float
    memory_bytes_per_second: float
    intra_node_link: str
    intra_node_bytes_per_second: float
    pair_bytes_per_second: float
    scale_up_size: int
    host_bytes_per_second: float | None
    inter_node_bytes_per_second: float
    measured_half_flops: float | None
    measured_ring_bytes_per_second: float | None
    measured_switch_bytes_per_second: float | None
    power_watts: float | None
    confidence: str
    source: str
    note: str

    @property
    def mesh(self) -> bool:
        """Wired pairwise rather than through a switch: small groups reach a share of the links."""
        return self.pair_bytes_per_second <= self.intra_node_bytes_per_second / 2

    def matmul_flops(self, precision: str) -> float:
        """Dense peak of matrix products at ``precision`` (bf16, fp16, fp8 or fp32).

        fp8 on a device without it runs at the rate of bf16.

        Raises:
            BadRequest: The table has no fp32 rate for this device.
        """
        if precision == "fp8":
            return self.fp8_flops or self.half_flops
        if precision == "fp32":
            if self.fp32_flops is None:
                raise BadRequest(
                    f"The rate of fp32 matrix products on {self.name} is not known.",
                    field="training.precision",
                    hint="Use bf16, fp16 or fp8.",
                )
            return self.fp32_flops
        return self.half_flops


@cache
def devices() -> Mapping[str, Device]:
    """All devices by name, in the order of the table."""
    text = files("solver.cluster").joinpath("devices.csv").read_text(encoding="utf-8")
    return MappingProxyType(
        {row["name"]: _device(row) for row in csv.DictReader(text.splitlines())}
    )


def device(name: str, field: str = "cluster.device") -> Device:
    """The device of that name.

    Raises:
        UnknownName: No such device; the hint names close ones.
    """
    catalogue = devices()
    if name in catalogue:
        return catalogue[name]
    close = _close(name, list(catalogue))
    raise UnknownName(
        f"There is no device {name[:80]!r}.",
        field=field,
        hint=f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(catalogue)}.",
    )


def _close(name: str, known: list[str]) -> list[str]:
    """Up to three names that contain the words of ``name``, else that are spelled alike."""
    lowered = {entry.lower(): entry for entry in known}
    words = name.lower().replace("_", "-").replace(" ", "-").split("-")
    containing = [entry for low, entry in lowered.items() if all(word in low for word in words)]
    alike = [lowered[low] for low in get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)]
    return (containing or alike)[:3]


def _device(row: Mapping[str, str]) -> Device:
    intra = _number(row["intra_node_gb_per_second"], _GIGA)
    usable = _number(row["usable_memory_gib"], _GIB)
    memory = _required(row, "memory_gb", _GIGA) if usable is None else usable
    return Device(
        name=row["name"],
        vendor=row["vendor"],
        year=int(row["year"]),
        form=row["form"],
        half_flops=_required(row, "half_tflops", _TERA),
        fp8_flops=_number(row["fp8_tflops"], _TERA),
        fp32_flops=_number(row["fp32_tflops"], _TERA),
        memory_bytes=memory,
        memory_bytes_per_second=_required(row, "memory_gb_per_second", _GIGA),
        intra_node_link=row["intra_node_link"],
        intra_node_bytes_per_second=_required(row, "intra_node_gb_per_second", _GIGA),
        pair_bytes_per_second=_number(row["pair_gb_per_second"], _GIGA) or intra or 0.0,
        scale_up_size=int(row["scale_up_size"]),
        host_bytes_per_second=_number(row["host_gb_per_second"], _GIGA),
        inter_node_bytes_per_second=_required(row, "inter_node_gb_per_second", _GIGA),
        measured_half_flops=_number(row["measured_half_tflops"], _TERA),
        measured_ring_bytes_per_second=_number(row["measured_ring_gb_per_second"], _GIGA),
        measured_switch_bytes_per_second=_number(row["measured_switch_gb_per_second"], _GIGA),
        power_watts=_number(row["power_watts"], 1.0),
        confidence=row["confidence"],
        source=row["source"],
        note=row["note"],
    )


def _number(text: str, unit: float) -> float | None:
    return float(text) * unit if text else None


def _required(row: Mapping[str, str], column: str, unit: float) -> float:
    value = _number(row[column], unit)
    if value is None:
        raise ValueError(f"devices.csv: {row['name']} has no {column}")
    return value
