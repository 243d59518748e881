"""The slow twin of planning under any schedule: every cut, every choice, one task at a time.

It shares no code with the optimisation, the simulator or the sweep; the orders are those that the
check of answers has written out for itself.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from solver.costs.pipeline import PipelineCosts
from solver.verify_orders import Task, device_of, order_of
from tests.solver.exhaustive import block_choices

Choice = tuple[float, float, float, float]
"""Recompute seconds, those ahead of the gradient, kept bytes, and the bytes that a stage rebuilds
into: of its largest block, or ahead of the gradient of all its blocks."""


@dataclass(frozen=True)
class Pipeline:
    """A schedule in the words of a request."""

    schedule: str
    devices: int
    chunks: int = 1
    group: int = 0
    stalls: bool = False

    @property
    def copies(self) -> int:
        """How often a pipeline holds the model."""
        return 2 if self.schedule == "chimera" else 1

    @property
    def depth(self) -> int:
        """Stages that a micro-batch passes."""
        return self.devices * self.chunks

    @property
    def splits(self) -> bool:
        """Whether gradients of weights are made apart."""
        return self.schedule.startswith("zb-")

    def orders(self, n: int) -> list[list[Task]]:
        """Every device's order."""
        chunks = self.chunks * self.copies
        orders = [
            order_of(self.schedule, device, self.devices, chunks, n, self.group)
            for device in range(self.devices)
        ]
        return [_with_recompute(order) for order in orders] if self.stalls else orders

    def device(self, stage: int) -> int:
        """Where a stage stands."""
        return device_of(self.schedule, stage, self.devices)


def _with_recompute(order: list[Task]) -> list[Task]:
    """R(s, m) just before each B(s, m)."""
    found: list[Task] = []
    for work, stage, m in order:
        found += [("R", stage, m), (work, stage, m)] if work == "B" else [(work, stage, m)]
    return found


def optimum(costs: PipelineCosts, pipeline: Pipeline) -> float:
    """The least makespan over everything; infinite if nothing fits."""
    orders = pipeline.orders(costs.micro_batches)
    best = math.inf
    known: dict[tuple[int, ...], list[Choice]] = {}
    for cuts in itertools.combinations(range(1, len(costs.sequence)), pipeline.depth - 1):
        edges = (0, *cuts, len(costs.sequence))
        runs = [costs.sequence[a:b] for a, b in itertools.pairwise(edges)] * pipeline.copies
        choices = []
        for run in runs:
            key = tuple(sorted(run))
            if key not in known:
                known[key] = _choices(costs, key, stalls=pipeline.stalls)
            choices.append(known[key])
        best = min(best, _best_of(costs, pipeline, orders, runs, choices, best))
    return best


def _choices(costs: PipelineCosts, run: tuple[int, ...], *, stalls: bool = False) -> list[Choice]:
    """What a stage of these blocks may do, no way better than another in everything."""
    found = set()
    each = {kind: block_choices(costs.blocks[kind]) for kind in set(run)}
    parts = [
        itertools.combinations_with_replacement(each[kind], run.count(kind)) for kind in set(run)
    ]
    for picked in itertools.product(*parts):
        flat = [choice for part in picked for choice in part]
        seconds, kept = sum(c[1] for c in flat), sum(c[0] for c in flat)
        found.add((seconds, 0.0, kept, max(c[2] for c in flat)))
        if stalls:
            found.add((0.0, seconds, kept, sum(c[2] for c in flat)))
    return [(a, b, c, d) for a, b, c, d in _least(sorted(found))]


def _best_of(
    costs: PipelineCosts,
    pipeline: Pipeline,
    orders: list[list[Task]],
    runs: list[tuple[int, ...]],
    choices: list[list[Choice]],
    best: float,
) -> float:
    """The least makespan of one cut."""
    blocks = [[costs.blocks[kind] for kind in run] for run in runs]
    ops = [[op for block in here for op in block.ops] for here in blocks]
    forward = [sum(op.forward_seconds for op in here) for here in ops]
    weight = [sum(op.weight_seconds for op in here) * pipeline.splits for here in ops]
    plain = [sum(op.backward_seconds for op in here) for here in ops]
    held = [sum(op.weight_held_bytes for op in here) * pipeline.splits for here in ops]
    per_device = []
    for device, order in enumerate(orders):
        mine = [s for s in range(len(runs)) if pipeline.device(s) == device]
        room = costs.capacity_bytes - costs.reserved_bytes
        room -= sum(block.states.total for s in mine for block in blocks[s])
        fitting = [
            picked
            for picked in itertools.product(*(choices[s] for s in mine))
            if _most(order, dict(zip(mine, picked, strict=True)), held, pipeline.splits) <= room
        ]
        seconds = _least(sorted({tuple(s for c in picked for s in c[:2]) for picked in fitting}))
        pairs = [list(zip(row[::2], row[1::2], strict=True)) for row in seconds]
        per_device.append([dict(zip(mine, row, strict=True)) for row in pairs])
    for combination in itertools.product(*per_device):
        again = {stage: extra for device in combination for stage, extra in device.items()}
        backward = [plain[s] - weight[s] + again[s][0] for s in range(len(runs))]
        ahead = [again[s][1] for s in range(len(runs))]
        times = {"F": forward, "B": backward, "W": weight, "R": ahead}
        best = min(best, makespan(pipeline, orders, times, costs.send_seconds))
    return best


def _most(order: list[Task], choice: dict[int, Choice], held: list[float], splits: bool) -> float:
    """Most bytes of micro-batches at once, the buffer of a backward that begins included."""
    now = most = 0.0
    for work, stage, _ in order:
        if work == "F":
            now += choice[stage][2]
        elif work == "B":
            most = max(most, now + choice[stage][3])
            now += held[stage] - choice[stage][2]
        elif work == "W":
            now -= held[stage]
        if splits:
            most = max(most, now)
    return most


def makespan(
    pipeline: Pipeline, orders: list[list[Task]], times: dict[str, list[float]], send: float
) -> float:
    """Run every task as soon as it may, device by device in turn."""
    at, clock = [0] * len(orders), [0.0] * len(orders)
    end: dict[Task, float] = {}
    moved = True
    while moved:
        moved = False
        for device, order in enumerate(orders):
            while at[device] < len(order):
                work, s, m = order[at[device]]
                first, last = s % pipeline.depth == 0, (s + 1) % pipeline.depth == 0
                needs = {
                    "F": None if first else ("F", s - 1, m),
                    "B": ("F", s, m) if last else ("B", s + 1, m),
                    "W": ("B", s, m),
                    "R": None,
                }[work]
                if needs is not None and needs not in end:
                    break
                if needs is not None:
                    far = pipeline.device(needs[1]) != device
                    clock[device] = max(clock[device], end[needs] + (send if far else 0.0))
                clock[device] += times[work][s]
                end[work, s, m] = clock[device]
                at[device] += 1
                moved = True
    assert all(place == len(order) for place, order in zip(at, orders, strict=True))
    return max(clock)


def _least(vectors: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Vectors that no other is at most in every place; ``vectors`` are distinct and sorted."""
    kept: list[tuple[float, ...]] = []
    for vector in vectors:
        if not any(all(a <= b for a, b in zip(w, vector, strict=True)) for w in kept):
            kept.append(vector)
    return kept
