"""How near the predicted memory comes to what Megatron-LM measured of itself.

    python -m benchmarks.memory_accuracy            print the report
    python -m benchmarks.memory_accuracy --check    and fail where an error grew by over a tenth
    python -m benchmarks.memory_accuracy --update   and make this the state to compare with

Every record is evaluated through the same door as a user's request. A miss is explained only where
another reading of the record, which its name suggests, is met by the same model.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from solver.planner import evaluate
from solver.request import PlanRequest

HERE = Path(__file__).parent
RECORDS = HERE / "data" / "megatron_memory.jsonl"
BASELINE = HERE / "memory_accuracy.json"
GIB = float(1 << 30)

Record = dict[str, Any]


@dataclass(frozen=True)
class Quantity:
    """A measured quantity, and the error that is still called agreement."""

    name: str
    field: str
    relative: float
    absolute: float
    wanted: float

    def measured(self, record: Record) -> float:
        """GiB as measured."""
        return float(record["measured"][self.field])

    def met(self, predicted: float, record: Record) -> bool:
        """Whether a prediction in GiB is near enough."""
        measured = self.measured(record)
        return abs(predicted - measured) <= max(self.relative * measured, self.absolute)


PEAK = Quantity("peak", "last_rank_peak_allocated_gib", 0.05, 0.15, 0.90)
STEADY = Quantity("steady", "last_rank_steady_allocated_gib", 0.02, 0.05, 0.95)


@dataclass(frozen=True)
class Prediction:
    """Allocated GiB of the last rank."""

    peak: float
    steady: float
    moment: str

    def of(self, quantity: Quantity) -> float:
        """The predicted value of a quantity."""
        return self.peak if quantity is PEAK else self.steady


Pairs = list[tuple[Prediction, Record]]


def predict(record: Record) -> Prediction:
    """Evaluate a record's request and read its last pipeline rank."""
    found = evaluate(PlanRequest.model_validate(record["request"]))
    last = max(found.stages, key=lambda stage: stage.index)
    return Prediction(
        last.allocated_peak_bytes / GIB,
        last.allocated_steady_bytes / GIB,
        str(last.allocated_peak_at),
    )


def _with_unfused_attention(record: Record) -> bool:
    """The long-term-support software lacks a deterministic fused attention for some cases."""
    arguments = record["request"]["model"]["megatron_args"]
    if "lts" not in record["id"] or "--attention-backend" in arguments:
        return False
    arguments["--attention-backend"] = "unfused"
    return True


UNEXPLAINED = "not explained"
READINGS: tuple[tuple[str, Callable[[Record], bool]], ...] = (
    (
        "older software, which ran attention unfused; the flags do not say so",
        _with_unfused_attention,
    ),
)


def reason(record: Record, quantity: Quantity) -> str:
    """Why a record is missed, as far as another reading of it is met."""
    for words, change in READINGS:
        other = copy.deepcopy(record)
        if change(other) and quantity.met(predict(other).of(quantity), record):
            return words
    return UNEXPLAINED


def _errors(quantity: Quantity, pairs: Pairs) -> list[float]:
    """Relative errors, signs dropped, ascending."""
    return sorted(
        abs(found.of(quantity) / quantity.measured(record) - 1.0) for found, record in pairs
    )


def report(records: list[Record]) -> dict[str, float]:
    """Print the report; answers with the figures to compare."""
    pairs = [(predict(record), record) for record in records]
    figures: dict[str, float] = {}
    print(
        f"{len(records)} readings of Megatron-LM's functional tests, last rank, allocated bytes\n"
    )
    print("quantity   agree within            share   wanted   mean error   95th percentile")
    for quantity in (PEAK, STEADY):
        errors = _errors(quantity, pairs)
        share = mean(quantity.met(found.of(quantity), record) for found, record in pairs)
        figures[f"{quantity.name}_mean_error"] = mean(errors)
        figures[f"{quantity.name}_share_missed"] = 1.0 - share
        within = f"{quantity.relative:.0%} or {quantity.absolute} GiB"
        print(
            f"{quantity.name:<10} {within:<22} {share:>6.1%} {quantity.wanted:>8.0%} "
            f"{mean(errors):>12.2%} {errors[int(0.95 * len(errors))]:>17.2%}"
        )
    for quantity in (PEAK, STEADY):
        _print_misses(quantity, pairs)
    return figures


def _print_misses(quantity: Quantity, pairs: Pairs) -> None:
    missed = [(found, r) for found, r in pairs if not quantity.met(found.of(quantity), r)]
    by_reason: dict[str, Pairs] = {}
    for found, record in missed:
        by_reason.setdefault(reason(record, quantity), []).append((found, record))
    agreeing = 1.0 - len(by_reason.get(UNEXPLAINED, [])) / len(pairs)
    print(
        f"\nMissed {quantity.name}: {len(missed)}. "
        f"With these read as their names say, {agreeing:.1%} agree."
    )
    for words, group in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        print(f"  {len(group)} {words}")
        for found, record in group:
            name = re.sub(r"golden_values_|\.json", "", record["id"])
            measured = quantity.measured(record)
            print(f"     {found.of(quantity):7.3f} predicted {measured:7.3f} measured  {name}")


def main() -> int:
    """Report, compare, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail where an error grew by a tenth")
    parser.add_argument("--update", action="store_true", help="keep these figures to compare with")
    arguments = parser.parse_args()
    started = time.perf_counter()
    lines = RECORDS.read_text(encoding="utf-8").splitlines()
    figures = report([json.loads(line) for line in lines])
    print(f"\n{time.perf_counter() - started:.1f} s")
    if arguments.update:
        BASELINE.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if arguments.check:
        kept = json.loads(BASELINE.read_text(encoding="utf-8"))
        worse = [name for name, figure in figures.items() if figure > 1.1 * kept[name] + 1e-9]
        for name in worse:
            print(f"{name} grew from {kept[name]:.4f} to {figures[name]:.4f}", file=sys.stderr)
        return int(bool(worse))
    return 0


if __name__ == "__main__":
    sys.exit(main())
