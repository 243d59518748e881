"""How fast whole spaces of layouts are searched: ``python -m benchmarks.search``.

Everything about the layout is open; the gap asked for is 0.1%. Time is the processor's, of reading
the question and of the search, without what explains the plan found. It grows with the layouts that
are legal, not with devices: Llama-3.1-70B on 64 to 100,000 of them shows it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from solver.planner import found_by
from solver.request import PlanRequest
from solver.search.outcome import Outcome

GAP = 1e-3


@dataclass(frozen=True)
class Case:
    """A model and its run on so many nodes of eight devices, and the seconds it should take."""

    model: str
    device: str
    nodes: int
    sequence_length: int
    global_batch_size: int
    precision: str = "bf16"
    target_seconds: float | None = None

    @property
    def name(self) -> str:
        """Model and devices."""
        return f"{self.model}, {8 * self.nodes:,} {self.device.split('-')[0]}"

    @property
    def request(self) -> PlanRequest:
        """The question with everything open."""
        document: dict[str, Any] = {
            "model": {"name": self.model},
            "cluster": {"device": self.device, "nodes": self.nodes, "devices_per_node": 8},
            "training": {
                "sequence_length": self.sequence_length,
                "global_batch_size": self.global_batch_size,
                "precision": self.precision,
            },
            "solver": {"relative_gap": GAP, "time_limit_seconds": 30},
        }
        return PlanRequest.model_validate(document)


LARGE = (
    Case("gpt-3-175b", "A100-SXM4-80GB", 128, 2048, 1536, target_seconds=3.0),
    Case("llama-3.1-405b", "H100-SXM5-80GB", 2048, 8192, 2048, target_seconds=8.0),
    Case("deepseek-v3", "H800-SXM5-80GB", 256, 4096, 15360, "fp8", target_seconds=10.0),
)

GROWING = tuple(
    Case("llama-3.1-70b", "H100-SXM5-80GB", nodes, 8192, 2048)
    for nodes in (8, 64, 512, 4096, 12_500)
)


def main() -> None:
    """Print both tables."""
    print(f"whole spaces of layouts, gap {GAP:.1%}")
    _heading()
    for case in LARGE:
        _row(case)
    print("\nthe same model on ever more devices")
    _heading()
    for case in GROWING:
        _row(case)


def _heading() -> None:
    columns = ("considered", "pruned", "no room", "solved", "open", "gap", "processor", "target")
    print(f"{'':32s}" + "".join(f"{column:>12s}" for column in columns))


def _row(case: Case) -> None:
    started = time.process_time()
    outcome = found_by(case.request)
    seconds = time.process_time() - started
    counts = (outcome.considered, outcome.pruned, outcome.infeasible, outcome.solved)
    cells = [f"{count:,}" for count in (*counts, outcome.unfinished)]
    target = "" if case.target_seconds is None else f"{case.target_seconds:.0f} s"
    cells += [_gap(outcome), f"{seconds:.1f} s", target]
    print(f"{case.name:32s}" + "".join(f"{cell:>12s}" for cell in cells), flush=True)


def _gap(outcome: Outcome) -> str:
    if outcome.found is None:
        return "none"
    return f"{1 - outcome.lower_bound / outcome.found.partition.makespan:.3%}"


if __name__ == "__main__":
    main()
