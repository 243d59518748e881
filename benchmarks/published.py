"""Published training runs: requests with what was measured, and errors of predictions over them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from solver.request import PlanRequest

DATA = Path(__file__).parent / "data"

STATED = ("Megatron-LM", "SimuMax", "dgxc-benchmarking")
"""Sources that state fabric and recompute."""

APART = 0.05
"""Two layouts are told apart if their measured times differ by more than this."""


@dataclass(frozen=True)
class Published:
    """One run: ``group`` is source, model and device; times in seconds, memory in decimal GB."""

    identity: str
    file: str
    group: str
    request: PlanRequest
    seconds: float | None
    memory_gb: float | None

    @property
    def source(self) -> str:
        """Where it was published."""
        return self.group.split("|")[0].split(":")[0]

    @property
    def states_conditions(self) -> bool:
        """Whether its source states fabric and recompute."""
        return any(name in self.source for name in STATED)

    @property
    def contest(self) -> str:
        """What layouts compete for: the same model, devices and batch."""
        asked = self.request.model_dump(mode="json")
        cluster = {name: asked["cluster"][name] for name in ("device", "nodes", "devices_per_node")}
        return json.dumps([asked["model"], cluster, asked["training"]], sort_keys=True)


def published(file: str) -> list[Published]:
    """The runs of ``runs`` or ``runs_moe_fp8``."""
    lines = (DATA / f"{file}.jsonl").read_text().splitlines()
    return [_read(json.loads(line), file) for line in lines]


def _read(record: dict[str, Any], file: str) -> Published:
    measured = record["measured"]
    return Published(
        identity=record["id"],
        file=file,
        group=record["group"],
        request=PlanRequest.model_validate(record["request"]),
        seconds=measured["iteration_seconds"],
        memory_gb=measured["peak_memory_gb"],
    )


@dataclass(frozen=True)
class Ranking:
    """Pairs of competing layouts ranked as measured, and the loss of choosing by prediction."""

    pairs: int
    right: int
    regret: float

    @property
    def share(self) -> float:
        """Of pairs ranked right."""
        return self.right / self.pairs if self.pairs else 1.0


def ranking(runs: Iterable[Published], predicted: Mapping[str, float]) -> Ranking:
    """Ranking by predicted seconds, within each contest; BLOOM's log, whose software changed on
    the way, is left out. Layouts that a request cannot tell apart are not a pair.
    """
    contests: dict[str, list[Published]] = defaultdict(list)
    for run in runs:
        if run.seconds is not None and "bigscience" not in run.source:
            contests[run.contest].append(run)
    pairs = right = 0
    regrets = []
    for entrants in contests.values():
        if len(entrants) < 2:
            continue
        for one, other in combinations(entrants, 2):
            if one.request == other.request or _close(one, other):
                continue
            order = predicted[one.identity] - predicted[other.identity]
            pairs += 1
            right += order * (_seconds(one) - _seconds(other)) > 0
        chosen = min(entrants, key=lambda run: predicted[run.identity])
        regrets.append(_seconds(chosen) / min(map(_seconds, entrants)) - 1.0)
    return Ranking(pairs, right, mean(regrets) if regrets else 0.0)


def _close(one: Published, other: Published) -> bool:
    low, high = sorted((_seconds(one), _seconds(other)))
    return high / low - 1.0 <= APART


def _seconds(run: Published) -> float:
    assert run.seconds is not None
    return run.seconds
