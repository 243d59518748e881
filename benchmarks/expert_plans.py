"""Layouts that a vendor recommends beside the plans found: ``python -m benchmarks.expert_plans``.

Theirs is evaluated as it is given, layers split evenly unless the recipe says how many its first
and its last stage hold, recompute as recommended; the time is a prediction, as that of ours is.
Ours is found with everything open that a request leaves open by default, or with ``--interleaved``
over chunks per device too. Rows are Markdown, for the docs.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from solver.layouts import Layout
from solver.plan import Evaluation
from solver.planner import evaluated, found_by
from solver.question import Question, only_layout, question
from solver.request import PlanRequest
from solver.workload.catalogue import architecture

PLANS = Path(__file__).parent / "data" / "expert_plans.csv"
"""Each row names the file of its source; there are no times in it."""

SIZES = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "virtual_stages",
    "micro_batch_size",
)
SHORT = ("t", "p", "c", "e", "et", "v", "b")


def main() -> None:
    """Print a row for each recommended plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interleaved", action="store_true", help="search chunks per device too")
    parser.add_argument("--only", default="", help="part of a model's name")
    options = parser.parse_args()
    print("| model | devices | recommended | predicted | found | predicted | faster by |")
    print("|---|---|---|---|---|---|---|")
    with PLANS.open() as file:
        for row in csv.DictReader(file):
            if options.only in row["model"]:
                print(compared(row, options.interleaved), flush=True)


def compared(row: dict[str, str], interleaved: bool) -> str:
    """One row of the table."""
    theirs = recommended(row)
    document = _document(row)
    if interleaved:
        document["layout"] = {"virtual_stages": [1, 2, 3, 4, 5, 6, 8, 12]}
    found = found_by(PlanRequest.model_validate(document)).found
    assert found is not None
    seconds = found.partition.makespan
    room = "" if theirs.fits else ", does not fit"
    cells = (
        f"{row['model']}, {row['precision']}, batch {row['global_batch_size']}",
        f"{row['devices']} {row['device'].split('-')[0]}",
        _sizes({name: row[name] for name in SIZES}),
        f"{theirs.iteration_seconds:.2f} s{room}",
        _sizes(_of(found.layout)),
        f"{seconds:.2f} s",
        f"{1 - seconds / theirs.iteration_seconds:.0%}",
    )
    return f"| {' | '.join(cells)} |"


def recommended(row: dict[str, str]) -> Evaluation:
    """What the recommended layout is predicted to take."""
    layout = {name: int(row[name]) for name in SIZES if row[name]}
    replicas = int(row["devices"])
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        replicas //= layout[name]
    layout["data_parallel"] = replicas
    if row["fsdp"] == "1":
        layout["zero_stage"] = 3
    document = _document(row) | {"layout": layout, "recompute": {"policy": "none"}}
    if row["recompute_modules"]:
        modules = row["recompute_modules"].split("/")
        document["recompute"] = {"policy": "selective", "modules": modules}
    asked = question(PlanRequest.model_validate(document))
    if row["first_stage_layers"]:
        asked = replace(asked, contents=_contents(row, asked))
    return evaluated(asked)


def _contents(row: dict[str, str], asked: Question) -> tuple[int, ...]:
    """Blocks on each stage, where the recipe names the layers of the first and the last.

    The embedding stands with the first; the head, and what predicts further tokens, with the last.
    """
    first, last = int(row["first_stage_layers"]), int(row["last_stage_layers"])
    middle = int(row["pipeline_parallel"]) * int(row["virtual_stages"]) - 2
    layers = architecture(row["model"]).num_layers - first - last
    costs = asked.costs(only_layout(asked))
    ends = len(costs.sequence) - architecture(row["model"]).num_layers - 1
    return (1 + first, *[layers // middle] * middle, last + ends)


def _document(row: dict[str, str]) -> dict[str, Any]:
    return {
        "model": {"name": row["model"]},
        "cluster": {
            "device": row["device"],
            "nodes": max(1, int(row["devices"]) // 8),
            "devices_per_node": 8,
        },
        "training": {
            "sequence_length": int(row["sequence_length"]),
            "global_batch_size": int(row["global_batch_size"]),
            "precision": row["precision"],
        },
        "solver": {"relative_gap": 1e-3},
    }


def _of(layout: Layout) -> dict[str, str]:
    shown = {name: str(getattr(layout, name)) for name in SIZES}
    if layout.expert_parallel == 1 or layout.expert_tensor_parallel == 0:
        shown["expert_tensor_parallel"] = ""
    return shown | ({"zero_stage": str(layout.zero_stage)} if layout.zero_stage != 1 else {})


def _sizes(values: dict[str, str]) -> str:
    """The sizes above 1, as letters and numbers."""
    letters = dict(zip(SIZES, SHORT, strict=True)) | {"zero_stage": "z"}
    shown = [
        f"{letters[name]}{value}"
        for name, value in values.items()
        if value and (value != "1" or name in ("tensor_parallel", "micro_batch_size"))
    ]
    return " ".join(shown)


if __name__ == "__main__":
    main()
