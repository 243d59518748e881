"""Where the iteration's time goes, as one bar."""

from __future__ import annotations

from service.console.quantities import duration, percent
from service.pages.pictures.svg import WIDTH, Drawing
from solver.plan import Breakdown

LINES = (
    ("compute", "compute", "Compute"),
    ("recompute", "recompute", "Recompute"),
    ("tensor_parallel", "tensor-parallel", "Tensor-parallel communication"),
    ("context_parallel", "context-parallel", "Context-parallel communication"),
    ("expert_parallel", "expert-parallel", "Expert-parallel communication"),
    ("pipeline_parallel", "pipeline-parallel", "Pipeline communication"),
    ("data_parallel", "data-parallel", "Data-parallel communication"),
    ("optimizer", "optimizer", "Optimizer step"),
    ("other", "other", "Other"),
    ("bubble", "bubble", "Pipeline bubble (stall)"),
)
"""Field, style and name of every line."""

_HEIGHT = 30.0


def breakdown(seconds: Breakdown, total: float) -> Drawing:
    """The bar; its parts add up to ``total`` seconds."""
    drawing = Drawing(
        "Where the iteration's time goes",
        ", ".join(
            f"{name} {percent(getattr(seconds, field) / total)}"
            for field, _, name in LINES
            if getattr(seconds, field) > 0
        ),
        height=_HEIGHT,
        legend=[
            (style, f"{name} {percent(getattr(seconds, field) / total)}")
            for field, style, name in LINES
            if getattr(seconds, field) > 0
        ],
    )
    x = 0.0
    for field, style, name in LINES:
        share = getattr(seconds, field) / total
        if share <= 0:
            continue
        width = share * WIDTH
        tip = f"{name}: {duration(share * total)}, {percent(share)}"
        drawing.rectangle(x, 0, width, _HEIGHT, style, tip)
        x += width
    return drawing
