"""Published training runs: requests with what was measured, and errors of predictions over them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from solver.request import PlanRequest

DATA = Path(__file__).parent / "data"

STATED = ("Megatron-LM", "SimuMax", "dgxc-benchmarking")
"""Sources that state fabric and recompute."""

ALLOCATED = ("SimuMax",)
"""Sources that publish what the allocator handed out. The memory of all others is that of the
device, or what the allocator took of it.
"""

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
    def unnamed(self) -> PlanRequest:
        """The request without the name of its software."""
        training = self.request.training.model_copy(update={"software": None})
        return self.request.model_copy(update={"training": training})

    @property
    def timed(self) -> bool:
        """Whether its time was published."""
        return self.seconds is not None

    @property
    def allocated(self) -> bool:
        """Whether its memory is what the allocator handed out."""
        return any(name in self.source for name in ALLOCATED)

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


Pair = tuple[Published, Published]


def ranking(
    runs: Iterable[Published],
    predicted: Mapping[str, float],
    counts: Callable[[Published], bool] = bool,
) -> Ranking:
    """Ranking by predicted seconds, within each contest; a pair counts if both of its runs do."""
    contests = _contests(runs)
    told = [pair for entrants in contests for pair in _pairs(list(filter(counts, entrants)))]
    right = sum(_as_measured(pair, predicted) for pair in told)
    regrets = []
    for entrants in contests:
        chosen = min(entrants, key=lambda run: predicted[run.identity])
        regrets.append(_seconds(chosen) / min(map(_seconds, entrants)) - 1.0)
    return Ranking(len(told), right, mean(regrets) if regrets else 0.0)


def misranked(runs: Iterable[Published], predicted: Mapping[str, float]) -> Counter[str]:
    """In how many wrongly ranked pairs each run stands."""
    found: Counter[str] = Counter()
    for entrants in _contests(runs):
        for pair in _pairs(entrants):
            if not _as_measured(pair, predicted):
                found.update(run.identity for run in pair)
    return found


def _contests(runs: Iterable[Published]) -> list[list[Published]]:
    """Competing layouts; BLOOM's log, whose software changed on the way, is left out."""
    contests: dict[str, list[Published]] = defaultdict(list)
    for run in runs:
        if run.seconds is not None and "bigscience" not in run.source:
            contests[run.contest].append(run)
    return [entrants for entrants in contests.values() if len(entrants) > 1]


def _pairs(entrants: list[Published]) -> list[Pair]:
    """Pairs to tell apart; layouts that a request cannot tell apart are none."""
    return [
        (one, other)
        for one, other in combinations(entrants, 2)
        if one.request != other.request and not _close(one, other)
    ]


def _as_measured(pair: Pair, predicted: Mapping[str, float]) -> bool:
    one, other = pair
    order = predicted[one.identity] - predicted[other.identity]
    return order * (_seconds(one) - _seconds(other)) > 0


def _close(one: Published, other: Published) -> bool:
    low, high = sorted((_seconds(one), _seconds(other)))
    return high / low - 1.0 <= APART


def _seconds(run: Published) -> float:
    assert run.seconds is not None
    return run.seconds
