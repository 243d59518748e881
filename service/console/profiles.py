"""A measured profile as text: what each block's ops take and keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from service.console.quantities import duration, milliseconds, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from profiler.profile import Measured
    from solver.request import ProfileBlock


def page(found: Measured, file: str) -> RenderableType:
    """A table of every block, and what to do next."""
    from rich.console import Group

    profile = found.request.model.profile
    assert profile is not None
    counts = [f"{count} {name}" for name, count in profile.sequence]
    parts: list[RenderableType] = [f"{', '.join(counts)}, measured on {found.device}."]
    for name, block in profile.blocks.items():
        parts += ["", _summary(name, block), _table(block)]
    return Group(*parts, "", f"stagecut plan {file}")


def _summary(name: str, block: ProfileBlock) -> str:
    forward = sum(op.forward_seconds for op in block.ops)
    backward = sum(op.backward_seconds for op in block.ops)
    read = {tensor for op in block.ops for tensor in op.backward_reads}
    kept = block.input_bytes + sum(op.output_bytes for op in block.ops if op.name in read)
    return (
        f"{name}: forward {duration(forward)}, backward {duration(backward)}, "
        f"keeps {size(kept)}, states {size(block.state_bytes)}"
    )


def _table(block: ProfileBlock) -> Table:
    read = {tensor for op in block.ops for tensor in op.backward_reads}
    table = Table(box=None, padding=(0, 1))
    table.add_column("op", no_wrap=True)
    for name in ("forward ms", "backward ms", "weights ms", "output", "kept"):
        table.add_column(name, justify="right", no_wrap=True)
    for op in block.ops:
        table.add_row(
            op.name,
            milliseconds(op.forward_seconds),
            milliseconds(op.backward_seconds),
            milliseconds(op.weight_seconds) if op.weight_seconds else "",
            size(op.output_bytes),
            "yes" if op.name in read else "",
        )
    return table
