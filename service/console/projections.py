"""A projection as text: the plan beside what a framework can run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from service.console.quantities import duration, gibibytes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solver.projections.documents import Projection


def page(found: Projection) -> RenderableType:
    """What it costs, both side by side, and the framework's own words."""
    from rich.console import Group

    if found.projected is None:
        return found.error or f"{found.framework} can run nothing of this plan."
    table = Table("", "iteration", "fullest device", box=None)
    for name, one in (("the plan", found.plan), (f"for {found.framework}", found.projected)):
        fits = "" if one.fits else ", does not fit"
        peak = f"{gibibytes(one.peak_memory_bytes)} GiB{fits}"
        table.add_row(name, duration(one.iteration_seconds), peak)
    lines: list[RenderableType] = [
        f"{found.framework} runs this plan {found.slower or 0.0:.1%} slower.",
        "",
        table,
        "",
    ]
    lines += found.changes
    if found.export is not None:
        lines += [*found.export.notes, "", found.export.text.rstrip()]
    return Group(*lines)
