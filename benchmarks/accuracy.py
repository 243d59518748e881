"""How near predicted times and memory come to published runs.

    python -m benchmarks.accuracy            print the report
    python -m benchmarks.accuracy --check    and fail where an error grew by over a tenth
    python -m benchmarks.accuracy --update   and make this the state to compare with

Every run is evaluated through the same door as a user's request. The columns "left out" come from
``python -m benchmarks.calibrate``, which fits the efficiencies without each group in turn.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks.published import Published, published, ranking
from solver.planner import evaluate

HERE = Path(__file__).parent
BASELINE = HERE / "accuracy.json"
LEFT_OUT = HERE / "calibrate" / "left_out.json"
TOLERATED_GROWTH = 1.1
SMALLEST_GROWTH = 0.002
"""Growth below this is rounding, whatever share of the error it is."""


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors of a set of runs."""

    time: list[float]
    left_out: list[float]
    memory: list[float]

    def row(self, name: str) -> str:
        """One line of the table."""
        cells = [f"{name[:58]:58s}", f"{len(self.time):4d}", *_pair(self.time)]
        cells += [*_pair(self.left_out), f"{len(self.memory):5d}", *_pair(self.memory)]
        return " ".join(cells)


def _pair(errors: list[float]) -> tuple[str, str]:
    if not errors:
        return f"{'':>6s}", f"{'':>6s}"
    return f"{mean(errors):6.1%}", f"{quantile(errors, 0.95):6.1%}"


def quantile(values: Iterable[float], share: float) -> float:
    """The value that ``share`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> int:
    """Print the report; answers with the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail where an error grew")
    parser.add_argument("--update", action="store_true", help="accept the errors as they are")
    options = parser.parse_args()
    runs = published("runs") + published("runs_moe_fp8")
    found = {run.identity: evaluate(run.request) for run in runs}
    seconds = {name: answer.iteration_seconds for name, answer in found.items()}
    memory = {name: answer.peak_memory_bytes / 1e9 for name, answer in found.items()}
    left_out = json.loads(LEFT_OUT.read_text())

    def errors(chosen: Iterable[Published]) -> Errors:
        chosen = list(chosen)
        timed = [run for run in chosen if run.seconds is not None]
        held = [run for run in chosen if run.memory_gb is not None]
        return Errors(
            [_error(seconds[run.identity], run.seconds) for run in timed],
            [_error(left_out[run.identity], run.seconds) for run in timed],
            [_error(memory[run.identity], run.memory_gb) for run in held],
        )

    columns = ("mean", "95%")
    head = f"{'':58s} {'runs':>4s} {'time':>13s} {'left out':>13s} {'runs':>5s} {'memory':>13s}"
    names = " ".join(f"{column:>6s}" for column in columns)
    print(f"{head}\n{'':63s} {names} {names} {'':5s} {names}")
    groups: dict[str, list[Published]] = defaultdict(list)
    for run in runs:
        groups[run.source].append(run)
    for source in sorted(groups):
        print(errors(groups[source]).row(source))
    kinds = {
        "dense 16-bit": [run for run in runs if run.file == "runs"],
        "dense 16-bit, fabric and recompute stated": [
            run for run in runs if run.file == "runs" and run.states_conditions
        ],
        "experts, latent attention, fp8": [run for run in runs if run.file == "runs_moe_fp8"],
    }
    state: dict[str, float] = {}
    print()
    for name, chosen in kinds.items():
        total = errors(chosen)
        print(total.row(name))
        state[f"{name}: time"] = mean(total.time)
        state[f"{name}: time, left out"] = mean(total.left_out)
    print()
    for name, predicted in (("fitted", seconds), ("left out", left_out)):
        ranked = ranking(kinds["dense 16-bit"], predicted)
        print(
            f"ranking, {name}: {ranked.share:.1%} of {ranked.pairs} pairs as measured, "
            f"regret {ranked.regret:.1%}"
        )
        state[f"ranking, {name}: pairs wrong"] = 1.0 - ranked.share
        state[f"ranking, {name}: regret"] = ranked.regret
    held = [run for run in runs if run.memory_gb is not None]
    state["memory: median"] = median(errors(held).memory)
    _worst(runs, seconds)
    if options.update:
        BASELINE.write_text(json.dumps(state, indent=2) + "\n")
    return _grown(state) if options.check else 0


def _error(predicted: float, measured: float | None) -> float:
    assert measured is not None
    return abs(predicted / measured - 1.0)


def _worst(runs: list[Published], seconds: dict[str, float], count: int = 12) -> None:
    print("\nfurthest off in time:")
    timed = [run for run in runs if run.seconds is not None]
    timed.sort(key=lambda run: -_error(seconds[run.identity], run.seconds))
    for run in timed[:count]:
        layout = run.request.layout
        print(
            f"  {run.identity:10s} {run.group[-44:]:44s} tp {layout.tensor_parallel} "
            f"pp {layout.pipeline_parallel} dp {layout.data_parallel} "
            f"mbs {layout.micro_batch_size}: measured {run.seconds:.2f} s, "
            f"predicted {seconds[run.identity]:.2f} s"
        )


def _grown(state: dict[str, float]) -> int:
    accepted = json.loads(BASELINE.read_text())
    grown = [
        f"{name}: {accepted[name]:.4f} -> {value:.4f}"
        for name, value in state.items()
        if name in accepted
        and value > max(accepted[name] * TOLERATED_GROWTH, accepted[name] + SMALLEST_GROWTH)
    ]
    for line in grown:
        print(f"grew by more than a tenth: {line}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
