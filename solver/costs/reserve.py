"""Bytes of a device that no tensor of the model accounts for.

The CUDA context, communicators, and what a generation of software holds beyond that: buffers in
which it flattens gradients, blocks that its allocator caches, and what its optimizer's step works
on. Figures and their sources stand
in ``calibration/memory.json``.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "calibration" / "memory.json"


def reserved_bytes(
    software: str = "",
    parameters: float = 0.0,
    gradient_bytes: float = 0.0,
    exchanges: bool = False,
    overlaps: bool = False,
) -> float:
    """The reserve of one device.

    Args:
        software: The generation that runs there; without it, what all of them hold.
        parameters: Of the device: a buffer for gradients is not larger than they are.
        gradient_bytes: Of one gradient where it is reduced.
        exchanges: Experts' tokens are exchanged, which connects every two ranks of their group, and
            leaves tensors of changing sizes to the allocator.
        overlaps: Other micro-batches compute meanwhile.
    """
    content = _content()
    own: dict[str, float] = content["software"].get(software, {})
    buffered = gradient_buffer_bytes(software, parameters, gradient_bytes)
    held: dict[str, float] = content["values"]
    exchange: dict[str, float] = content["exchange"]
    apart = exchanges * (exchange["connection_bytes"] + exchange["fragmented_bytes"])
    apart += overlaps * exchange["overlapped_bytes"]
    return sum(held.values()) + own.get("cached_bytes", 0.0) + buffered + apart


def gradient_buffer_bytes(software: str, parameters: float, gradient_bytes: float) -> float:
    """The part of the reserve in which gradients are flattened: less where parameters are few."""
    own: dict[str, float] = _content()["software"].get(software, {})
    return min(parameters, own.get("reduction_elements", 0.0)) * gradient_bytes


def update_bytes(software: str, *, copies: bool, adam: bool) -> float:
    """What the optimizer's step needs per parameter beside the states, when activations are gone.

    Args:
        software: The generation that runs there.
        copies: Gradients are narrower than what the step works on.
        adam: It is Adam's step, which makes lists of its own.
    """
    own: dict[str, float] = _content()["software"].get(software, {})
    copied = own.get("update_copy_bytes", 0.0) if copies else 0.0
    return copied + (own.get("update_temporary_bytes", 0.0) if adam else 0.0)


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return content
