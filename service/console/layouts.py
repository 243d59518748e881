"""A layout in words."""

from __future__ import annotations

from solver.plan import LayoutAnswer


def layout_in_full(layout: LayoutAnswer, micro_batches: int | None = None) -> str:
    """``tensor 2, pipeline 8, data 4, 128 micro-batches of 1, schedule 1f1b, ZeRO 1``."""
    parts = [*_degrees(layout), _batches(layout, micro_batches), f"schedule {layout.schedule}"]
    if layout.sequence_parallel:
        parts.append("sequence parallel")
    parts.append(f"ZeRO {layout.zero_stage}")
    return ", ".join(parts)


def layout_in_short(layout: LayoutAnswer, chosen: LayoutAnswer | None = None) -> str:
    """The degrees and the micro-batch, and whatever else differs from the ``chosen`` layout."""
    parts = [*_degrees(layout), _batches(layout, None)]
    if chosen is None:
        return ", ".join(parts)
    if layout.schedule != chosen.schedule:
        parts.append(layout.schedule)
    if layout.sequence_parallel != chosen.sequence_parallel:
        parts.append("sequence parallel" if layout.sequence_parallel else "not sequence parallel")
    if layout.zero_stage != chosen.zero_stage:
        parts.append(f"ZeRO {layout.zero_stage}")
    return ", ".join(parts)


def _degrees(layout: LayoutAnswer) -> list[str]:
    parts = [
        f"tensor {layout.tensor_parallel}",
        f"pipeline {layout.pipeline_parallel}",
        f"data {layout.data_parallel}",
    ]
    if layout.context_parallel > 1:
        how = "" if layout.context_method == "ring" else f" by {layout.context_method}"
        parts.append(f"context {layout.context_parallel}{how}")
    if layout.expert_parallel > 1:
        parts.append(f"expert {layout.expert_parallel}")
    if layout.virtual_stages > 1:
        parts.append(f"{layout.virtual_stages} chunks a device")
    return parts


def _batches(layout: LayoutAnswer, micro_batches: int | None) -> str:
    if micro_batches:
        return f"{micro_batches} micro-batches of {layout.micro_batch_size}"
    return f"micro-batch {layout.micro_batch_size}"
