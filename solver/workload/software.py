"""What named training software is known to do, as far as its memory and its stages depend on it.

``software.json`` holds the facts with the source of each. Where a fact depends on whether weights
are sharded, ``sharded`` holds what is known of runs under FSDP, ``implementation`` of all others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from solver.request import Precision, Software, Training
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation

_FILE = Path(__file__).parent / "software.json"


class Division(StrEnum):
    """How layers are divided over stages that nobody told: evenly with the rest in the middle,
    with the rest on the last stages, or each stage up to the layer that passes its share.
    """

    EVEN = "even"
    LATE = "late"
    CROSSING = "crossing"


@dataclass(frozen=True)
class SoftwareFacts:
    """The facts of one software.

    ``generation``: whose efficiencies it has; "" where the layout decides. ``zero_stages``: those
    that it runs; ``usual_zero_stage``: where a request leaves it open. ``targets``: frameworks
    that are this software.
    """

    title: str
    targets: tuple[str, ...]
    zero_stages: tuple[int, ...]
    usual_zero_stage: int
    generation: str = ""
    division: Division = Division.EVEN
    replicated: Implementation = DEFAULT_IMPLEMENTATION
    sharded: Implementation = DEFAULT_IMPLEMENTATION


UNNAMED = SoftwareFacts("the usual software", (), (0, 1, 2, 3), 1)
"""What is assumed of requests that name none."""


def facts_of(software: Software | None) -> SoftwareFacts:
    """What is known of a software."""
    return UNNAMED if software is None else _facts()[software]


def implementation_of(training: Training, zero_stage: int) -> Implementation:
    """How a run's software lays its step out in memory under a ZeRO stage.

    Widths of gradients and copies are those of training in 16 bits.
    """
    facts = facts_of(training.software)
    found = facts.sharded if zero_stage >= 2 else facts.replicated
    if training.precision is Precision.FP32 and found.gradient_bytes is not None:
        return replace(found, gradient_bytes=None)
    return found


def documented() -> dict[str, Any]:
    """The content of the file, sources included."""
    content: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return content


@cache
def _facts() -> dict[Software, SoftwareFacts]:
    return {Software(name): _read(entry) for name, entry in documented().items()}


def _read(entry: dict[str, Any]) -> SoftwareFacts:
    return SoftwareFacts(
        entry["title"],
        tuple(entry["targets"]),
        tuple(entry["zero_stages"]),
        entry["usual_zero_stage"],
        entry.get("generation", ""),
        Division(entry.get("division", Division.EVEN)),
        Implementation(**entry.get("implementation", {})),
        Implementation(**entry.get("sharded", {})),
    )
