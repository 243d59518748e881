"""Memory of every stage at its peak, as stacked bars against the limit."""

from __future__ import annotations

from itertools import groupby

from service.console.quantities import size
from service.pages.pictures.svg import NARROW, WIDTH, Drawing, size_unit
from solver.plan import Stage

PARTS = (
    ("weights", "weights", "Weights"),
    ("gradients", "gradients", "Gradients"),
    ("optimizer", "optimizer-state", "Optimizer state"),
    ("activations", "activations", "Kept activations"),
    ("recompute", "rebuilt", "Recomputed tensors"),
    ("working", "working", "Temporaries"),
    ("staging", "staging", "On the way to or from the host"),
    ("reserved", "reserved", "Reserve"),
)
"""Field of the stage's memory, style and name of every part, from left to right."""


def parts_of(stages: list[Stage]) -> list[tuple[str, str, str]]:
    """The parts; staging only where a plan offloads."""
    offloads = any(stage.memory.staging for stage in stages)
    return [part for part in PARTS if offloads or part[0] != "staging"]


_LEFT, _RIGHT, _RIGHT_OF, _TOP = 74.0, 84.0, 140.0, 26.0
_LIMIT_LABEL = 90.0


def memory(stages: list[Stage], limit: float, width: float = WIDTH) -> Drawing:
    """One bar per device; chunks of a device share its memory. Where devices differ, the limit
    steps from row to row and every row says its own.
    """
    devices = {stage.index: stage for stage in reversed(stages)}
    chunked = any(stage.chunk is not None for stage in stages)
    limits = {index: stage.memory_limit_bytes or limit for index, stage in devices.items()}
    alike = len(set(limits.values())) == 1
    limit = max(limits.values())
    most = max(limit, *(stage.peak_memory_bytes for stage in stages)) * 1.02
    row = 22.0 if len(devices) <= 16 else 12.0
    bottom = _TOP + len(devices) * row
    drawing = Drawing(
        "Memory of each stage at its peak",
        f"The limit is {size(limit)} per device."
        if alike
        else f"Limits are from {size(min(limits.values()))} to {size(limit)} per device.",
        height=bottom + 6,
        width=width,
        legend=[
            *((style, name) for _, style, name in parts_of(stages)),
            ("limit", "Limit per device"),
        ],
    )
    scale = (width - _LEFT - (_RIGHT if alike else _RIGHT_OF)) / most
    unit = size_unit(most)
    for tick in unit.ticks(most, 8 if width > NARROW else 3):
        x = _LEFT + tick * scale
        drawing.line(x, _TOP - 6, x, bottom, "grid")
        if alike and abs(tick - limit) * scale < _LIMIT_LABEL:
            continue
        drawing.text(x, _TOP - 11, unit.label(tick), "middle small")
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
                max(right, _LEFT + limits[index] * scale) + 8,
                y + row / 2 + 4,
                size(stage.peak_memory_bytes) + ("" if alike else f" of {size(limits[index])}"),
                "small",
            )
    y = _TOP - 6
    for value, run in groupby(limits[index] for index in sorted(devices)):
        x, end = _LEFT + value * scale, max(y, _TOP) + row * len(list(run))
        drawing.line(x, y, x, end, "limit")
        y = end
    if alike:
        x = _LEFT + limit * scale
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
