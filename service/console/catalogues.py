"""The catalogues as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from service.console.quantities import gibibytes
from service.documents import ModelEntry
from solver.cluster.device import Device


def models_table(models: Sequence[ModelEntry]) -> Table:
    """Models that a request can name."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for heading in ("parameters", "layers", "hidden size"):
        table.add_column(heading, justify="right")
    for model in models:
        table.add_row(
            model.name,
            f"{model.parameters / 1e9:,.2f} G",
            str(model.layers),
            str(model.hidden_size),
        )
    return table


def devices_table(devices: Sequence[Device]) -> Table:
    """Devices that a request can name."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("device", no_wrap=True)
    for heading in ("year", "bf16\nTFLOP/s", "memory\nGiB", "memory\nTB/s", "links\nGB/s"):
        table.add_column(heading, justify="right")
    table.add_column("figures", no_wrap=True)
    for device in devices:
        table.add_row(
            device.name,
            str(device.year),
            f"{device.half_flops / 1e12:,.0f}",
            gibibytes(device.memory_bytes),
            f"{device.memory_bytes_per_second / 1e12:.2f}",
            f"{device.intra_node_bytes_per_second / 1e9:,.0f}",
            device.confidence,
        )
    return table
