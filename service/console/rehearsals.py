"""A rehearsal as text: measured beside predicted."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rehearsal.rehearse import Rehearsal


def as_document(found: Rehearsal) -> str:
    """The rehearsal as JSON."""
    document = dataclasses.asdict(found) | {"kept_difference": found.kept_difference}
    return json.dumps(document, indent=2)


def page(found: Rehearsal) -> RenderableType:
    """What was run, and two tables."""
    from rich.console import Group

    stages = Table("stage", "layers", "kept, predicted", "kept, measured", box=None)
    for number, (layers, kept) in enumerate(zip(found.layers, found.stages, strict=True)):
        stages.add_row(str(number), str(layers), f"{kept.predicted:,.0f} B", f"{kept.measured:,} B")
    times = Table("pipeline", "measured", "predicted", "to the plan", box=None)
    plan = found.pipelines["plan"].measured_seconds
    for name, pipeline in found.pipelines.items():
        times.add_row(
            name,
            f"{pipeline.measured_seconds:.3f} s",
            f"{pipeline.predicted_seconds:.3f} s",
            f"{pipeline.measured_seconds / plan:.2f}",
        )
    order = "the order of the schedule" if found.same_order else "ANOTHER ORDER than the schedule"
    lines = [
        f"{sum(found.layers)} layers on {found.processes} processes, {found.micro_batches} "
        f"micro-batches, in {order}.",
        f"Loss {found.loss:.6f}, unsplit {found.loss_unsplit:.6f}; gradients differ by "
        f"{found.gradient_difference:.1e} of the largest.",
    ]
    if found.left_out:
        lines.append(f"Not in the small model: {', '.join(found.left_out)}.")
    lines.append("Predicted seconds are those of processes with a core each.")
    return Group(*lines, "", stages, "", times)
