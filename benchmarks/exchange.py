"""Exchange of experts' tokens, plain and overlapped, beside what was measured.

    python -m benchmarks.exchange

The runs are those of ``data/exchange_runs.jsonl``, each with its source: the same run twice, but
for one setting. No fit has seen their times; of the overlapped ones ``expert_overlap`` is taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solver.planner import evaluate
from solver.request import PlanRequest

RUNS = Path(__file__).parent / "data" / "exchange_runs.jsonl"
MIB = float(1 << 20)


@dataclass(frozen=True)
class Compared:
    """Predicted over measured; ``memory`` of what the allocator handed out, where it was measured.

    ``seconds``: as predicted.
    """

    identity: str
    seconds: float
    time: float
    memory: float | None


def main() -> None:
    """Print a row for each run."""
    print(f"{'':34s} {'measured':>9s} {'predicted':>9s} {'ratio':>6s} {'memory':>7s}")
    for record in records():
        found = compared(record)
        memory = f"{found.memory:7.3f}" if found.memory is not None else ""
        measured = record["measured"]["iteration_seconds"]
        print(
            f"{found.identity:34s} {measured:9.3f} {found.seconds:9.3f} {found.time:6.3f} {memory}"
        )


def records() -> list[dict[str, Any]]:
    """The runs."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()]


def compared(record: dict[str, Any]) -> Compared:
    """A run's prediction beside its measurement."""
    found = evaluate(PlanRequest.model_validate(record["request"]))
    measured = record["measured"]
    peak = max(stage.allocated_peak_bytes for stage in found.stages) / MIB
    known = measured.get("peak_allocated_mib")
    return Compared(
        record["id"],
        found.iteration_seconds,
        found.iteration_seconds / measured["iteration_seconds"],
        peak / known if known else None,
    )


if __name__ == "__main__":
    main()
