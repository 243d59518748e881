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
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.published import DATA, Published, misranked, published, ranking
from solver.plan import Evaluation
from solver.planner import evaluate

HERE = Path(__file__).parent
BASELINE = HERE / "accuracy.json"
LEFT_OUT = HERE / "calibrate" / "left_out.json"
FITTED = HERE / "calibrate" / "fitted.json"
MISSES = DATA / "misses.json"
TOLERATED_GROWTH = 1.1
SMALLEST_GROWTH = 0.002
"""Growth below this is rounding, whatever share of the error it is."""
STALE = 0.01
"""Predictions that moved further since the fit say that what it left out is of other costs."""
WANTED_MEMORY = 0.05
WANTED = {
    "dense 16-bit: time, left out": 0.07,
    "dense 16-bit, fabric and recompute stated: time, left out": 0.04,
    "experts, latent attention, fp8: time, left out": 0.10,
    "ranking, fitted: pairs wrong": 0.10,
    "ranking, left out: pairs wrong": 0.10,
    "ranking, fitted: pairs wrong, irregular runs apart": 0.10,
    "ranking, left out: pairs wrong, irregular runs apart": 0.10,
    "ranking, left out: regret": 0.03,
    "dense 16-bit: memory": WANTED_MEMORY,
    "experts, latent attention, fp8: memory": WANTED_MEMORY,
}
"""What is wanted of the figures: at most so much."""
SHOWN = 12

Figures = dict[str, float]


@dataclass(frozen=True)
class Predictions:
    """Seconds and decimal GB of every run, by its identity; seconds also without its group.

    Memory is that of the device, or what the allocator hands out, as the source published it.
    ``unnamed_gb``: the memory of runs that name their software, as if they did not.
    """

    seconds: Mapping[str, float]
    left_out: Mapping[str, float]
    memory_gb: Mapping[str, float]
    unnamed_gb: Mapping[str, float]


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

    def figures(self, name: str) -> Figures:
        """The means, by what they are of."""
        means = {"time": self.time, "time, left out": self.left_out, "memory": self.memory}
        return {f"{name}: {what}": mean(errors) for what, errors in means.items() if errors}


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
    figures = report(runs, predictions(runs))
    if options.update:
        BASELINE.write_text(json.dumps(figures, indent=2) + "\n")
    return _grown(figures) if options.check else 0


def predictions(runs: list[Published]) -> Predictions:
    """What an evaluation of each run's request says."""
    found = {run.identity: evaluate(run.request) for run in runs}
    named = [run for run in runs if run.memory_gb is not None and run.request.training.software]
    return Predictions(
        {name: answer.iteration_seconds for name, answer in found.items()},
        json.loads(LEFT_OUT.read_text()),
        {run.identity: _memory_gb(run, found[run.identity]) for run in runs},
        {run.identity: _memory_gb(run, evaluate(run.unnamed)) for run in named},
    )


def _memory_gb(run: Published, answer: Evaluation) -> float:
    if run.allocated:
        return max(stage.allocated_peak_bytes for stage in answer.stages) / 1e9
    return answer.peak_memory_bytes / 1e9


def report(runs: list[Published], predicted: Predictions) -> Figures:
    """Print the report; answers with the figures to compare."""
    names = " ".join(f"{column:>6s}" for column in ("mean", "95%"))
    print(f"{'':58s} {'runs':>4s} {'time':>13s} {'left out':>13s} {'runs':>5s} {'memory':>13s}")
    print(f"{'':63s} {names} {names} {'':5s} {names}")
    figures: Figures = {}
    sources = _by_source(runs)
    for source in sorted(sources):
        found = errors(sources[source], predicted)
        print(found.row(source))
        figures |= found.figures(source)
    print()
    kinds = _kinds(runs)
    for name, chosen in kinds.items():
        found = errors(chosen, predicted)
        print(found.row(name))
        figures |= found.figures(name)
    print()
    reasons: dict[str, Any] = json.loads(MISSES.read_text())
    dense = kinds["dense 16-bit"]
    for name, seconds in (("fitted", predicted.seconds), ("left out", predicted.left_out)):
        figures |= _rank(name, dense, seconds, reasons["ranking"])
    unnamed = replace(predicted, memory_gb={**predicted.memory_gb, **predicted.unnamed_gb})
    for name, chosen in kinds.items():
        memory = errors(chosen, unnamed).memory
        if memory != errors(chosen, predicted).memory:
            figures[f"{name}: memory, software not named"] = mean(memory)
            print(f"{name}: memory {mean(memory):.1%} off where training.software is left out")
    figures["left out: runs of another cost model"] = _stale(predicted.seconds)
    _judge(figures)
    _explain_ranking(dense, predicted.seconds, reasons["ranking"])
    _explain_times(runs, predicted.seconds, reasons["time"])
    _explain_memory(sources, predicted, reasons["memory"])
    return figures


def _stale(seconds: Mapping[str, float]) -> float:
    """The share of runs whose prediction is not what it was when the efficiencies were fitted."""
    fitted: dict[str, float] = json.loads(FITTED.read_text())
    moved = [name for name, was in fitted.items() if _error(seconds[name], was) > STALE]
    if moved:
        print(
            f"the column left out is of another cost model for {len(moved)} runs "
            f"({', '.join(moved[:SHOWN])}): make calibrate renews it"
        )
    return len(moved) / len(fitted)


def _judge(figures: Figures) -> None:
    """Print what is wanted beside what is."""
    print(f"\n{'':60s} {'is':>6s} {'wanted':>7s}")
    for name, wanted in WANTED.items():
        verdict = "" if figures[name] <= wanted else "  missed"
        print(f"{name:60s} {figures[name]:6.1%} {wanted:7.0%}{verdict}")


def errors(runs: Iterable[Published], predicted: Predictions) -> Errors:
    """The errors over these runs."""
    chosen = list(runs)
    timed = [run for run in chosen if run.seconds is not None]
    held = [run for run in chosen if run.memory_gb is not None]
    return Errors(
        [_error(predicted.seconds[run.identity], run.seconds) for run in timed],
        [_error(predicted.left_out[run.identity], run.seconds) for run in timed],
        [_error(predicted.memory_gb[run.identity], run.memory_gb) for run in held],
    )


def _error(predicted: float, measured: float | None) -> float:
    assert measured is not None
    return abs(predicted / measured - 1.0)


def _by_group(runs: Iterable[Published]) -> dict[str, list[Published]]:
    groups: dict[str, list[Published]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    return groups


def _by_source(runs: Iterable[Published]) -> dict[str, list[Published]]:
    groups: dict[str, list[Published]] = defaultdict(list)
    for run in runs:
        groups[run.source].append(run)
    return groups


def _kinds(runs: list[Published]) -> dict[str, list[Published]]:
    dense = [run for run in runs if run.file == "runs"]
    return {
        "dense 16-bit": dense,
        "dense 16-bit, fabric and recompute stated": [
            run for run in dense if run.states_conditions
        ],
        "experts, latent attention, fp8": [run for run in runs if run.file == "runs_moe_fp8"],
    }


def _rank(
    name: str, runs: list[Published], seconds: Mapping[str, float], apart: Mapping[str, Any]
) -> Figures:
    """Print how pairs are ranked, in all and by source; answers with the figures."""
    ranked = ranking(runs, seconds)
    steady = ranking(runs, seconds, lambda run: not _irregular(run, apart))
    print(
        f"ranking, {name}: {ranked.share:.1%} of {ranked.pairs} pairs as measured, "
        f"regret {ranked.regret:.1%}; {steady.share:.1%} of {steady.pairs} without irregular runs"
    )
    for group, chosen in sorted(_by_group(runs).items()):
        of_group = ranking(chosen, seconds)
        if of_group.pairs:
            print(f"  {group[:56]:56s} {of_group.share:6.1%} of {of_group.pairs}")
    return {
        f"ranking, {name}: pairs wrong": 1.0 - ranked.share,
        f"ranking, {name}: pairs wrong, irregular runs apart": 1.0 - steady.share,
        f"ranking, {name}: regret": ranked.regret,
    }


def _irregular(run: Published, apart: Mapping[str, Any]) -> bool:
    """Whether what was measured follows from nothing that the record says of the run."""
    found = apart.get(run.group)
    return found is not None and run.request.layout.tensor_parallel in found["tensor_parallel"]


def _explain_ranking(
    runs: list[Published], seconds: Mapping[str, float], apart: Mapping[str, Any]
) -> None:
    """Say which runs are set apart and why, and which others most wrong pairs have in common."""
    print()
    for group, found in apart.items():
        sizes = ", ".join(map(str, found["tensor_parallel"]))
        print(_paragraph(f"set apart, {group}, tp {sizes}: {found['reason']}."))
    steady = [run for run in runs if not _irregular(run, apart)]
    worst = misranked(steady, seconds).most_common(3)
    print(
        _paragraph(f"wrong pairs of others: {', '.join(f'{n} with {name}' for name, n in worst)}.")
    )


def _explain_times(
    runs: list[Published], seconds: Mapping[str, float], reasons: Mapping[str, str]
) -> None:
    print("\nfurthest off in time:")
    timed = [run for run in runs if run.seconds is not None]
    timed.sort(key=lambda run: -_error(seconds[run.identity], run.seconds))
    for run in timed[:SHOWN]:
        layout = run.request.layout
        print(
            f"  {run.identity:9s} {run.group.split('/')[-1][:38]:38s} tp {layout.tensor_parallel} "
            f"pp {layout.pipeline_parallel} dp {layout.data_parallel} "
            f"mbs {layout.micro_batch_size}: measured {run.seconds:.2f} s, "
            f"predicted {seconds[run.identity]:.2f} s"
        )
    for group in dict.fromkeys(run.group for run in timed[:SHOWN]):
        if group in reasons:
            print(_paragraph(f"{group}: {reasons[group]}."))


def _explain_memory(
    sources: Mapping[str, list[Published]], predicted: Predictions, reasons: Mapping[str, str]
) -> None:
    print(f"\nmemory off by more than {WANTED_MEMORY:.0%} on average:")
    for source in sorted(sources):
        found = errors(sources[source], predicted).memory
        if found and mean(found) > WANTED_MEMORY:
            print(_paragraph(f"{source}, {mean(found):.1%}: {reasons.get(source, 'unexplained')}."))


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="    ")


def _grown(figures: Figures) -> int:
    accepted = json.loads(BASELINE.read_text())
    grown = [
        f"{name}: {accepted[name]:.4f} -> {value:.4f}"
        for name, value in figures.items()
        if name in accepted
        and value > max(accepted[name] * TOLERATED_GROWTH, accepted[name] + SMALLEST_GROWTH)
    ]
    for line in grown:
        print(f"grew by more than a tenth: {line}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
