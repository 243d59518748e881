"""Memory of every stage at its peak, as stacked bars against the limit."""

from __future__ import annotations

from service.console.quantities import size
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, ticks
from solver.plan import Stage

PARTS = (
    ("weights", "weights", "Weights"),
    ("gradients", "gradients", "Gradients"),
    ("optimizer", "optimizer-state", "Optimizer state"),
    ("activations", "activations", "Kept activations"),
    ("recompute", "rebuilt", "Recomputed tensors"),
    ("working", "working", "Temporaries"),
    ("reserved", "reserved", "Reserve"),
)
"""Field of the stage's memory, style and name of every part, from left to right."""

_LEFT, _RIGHT, _TOP = 74.0, 84.0, 26.0
_LIMIT_LABEL = 90.0
_GIB = 2.0**30


def memory(stages: list[Stage], limit: float, width: float = WIDTH) -> Drawing:
    """One bar per device; chunks of a device share its memory."""
    devices = {stage.index: stage for stage in reversed(stages)}
    chunked = any(stage.chunk is not None for stage in stages)
    most = max(limit, *(stage.peak_memory_bytes for stage in stages)) * 1.02
    row = 22.0 if len(devices) <= 16 else 12.0
    bottom = _TOP + len(devices) * row
    drawing = Drawing(
        "Memory of each stage at its peak",
        f"The limit is {size(limit)} per device.",
        height=bottom + 6,
        width=width,
        legend=[*((style, name) for _, style, name in PARTS), ("limit", "Limit per device")],
    )
    scale = (width - _LEFT - _RIGHT) / most
    for tick in ticks(0, most / _GIB, 8 if width > NARROW else 3):
        x = _LEFT + tick * _GIB * scale
        drawing.line(x, _TOP - 6, x, bottom, "grid")
        if abs(tick * _GIB - limit) * scale < _LIMIT_LABEL:
            continue
        drawing.text(x, _TOP - 11, f"{tick:g} GiB", "middle small")
    for position, index in enumerate(sorted(devices)):
        stage = devices[index]
        y = _TOP + position * row
        name = f"{'device' if chunked else 'stage'} {index}"
        if row >= 14 or index % 2 == 0:
            drawing.text(_LEFT - 8, y + row / 2 + 4, name, "end small")
        _bar(drawing, stage, name, y + 1.5, row - 3, scale)
        if row >= 14 or index % 2 == 0:
            right = _LEFT + stage.peak_memory_bytes * scale
            drawing.text(
                max(right, _LEFT + limit * scale) + 8,
                y + row / 2 + 4,
                size(stage.peak_memory_bytes),
                "small",
            )
    x = _LEFT + limit * scale
    drawing.line(x, _TOP - 6, x, bottom, "limit")
    drawing.text(x, _TOP - 11, f"limit {size(limit)}", "middle small limit-text")
    return drawing


def _bar(drawing: Drawing, stage: Stage, name: str, y: float, height: float, scale: float) -> None:
    x = _LEFT
    for field, style, words in PARTS:
        count = getattr(stage.memory, field)
        width = count * scale
        if width > 0:
            drawing.rectangle(x, y, width, height, style, f"{name} · {words}: {size(count)}")
        x += width
