"""The bound of a small pipeline's plan, proved again by going through all plans.

For pipelines whose devices hold several stages, or whose stages may recompute ahead of the
gradient. Every split is looked at, and on every device every way to keep and recompute that its
memory admits (``frontiers`` say what a block may do). Most fall at once: passes of fewer seconds
never end an iteration later, so a split that is too slow with the least of every stage is too slow
anyhow, and so on with one device after another decided. The orders are those that the check of
answers has written out for itself; tasks are run one at a time. Nothing is shared with the programs
that make plans, with the simulator, or with the sweep of memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from solver.costs.pipeline import PipelineCosts
from solver.recompute.frontier import Frontier
from solver.verify_orders import Task, device_of, order_of

MOST_TASKS = 10_000_000
"""Tasks that are run, over all plans, before it is given up: some seconds."""

MOST_SPLITS = 20_000
"""Splits that are looked at."""

MOST_WAYS = 50_000
"""Ways of a stage, or of a device, that are compared."""

Way = tuple[float, float, float, float]
"""Recompute seconds on demand and ahead, kept bytes and what a stage rebuilds into at most."""

Seconds = tuple[tuple[float, float], ...]
"""Recompute seconds, on demand and ahead, of each stage of a device."""


class TooMany(Exception):
    """There are too many plans to go through."""


@dataclass(frozen=True)
class _Step:
    """A task and what it waits for, as places in the order in which tasks are run."""

    work: str
    stage: int
    before: int | None
    needs: int | None
    far: bool


@dataclass(frozen=True)
class _Moment:
    """Micro-batches alive, and waiting for gradients of weights, on each stage of a device."""

    acting: int | None
    alive: tuple[int, ...]
    waiting: tuple[int, ...]


class EveryPlan:
    """All plans of a pipeline.

    Args:
        costs: What each block costs, on devices that are all alike.
        frontiers: What each kind may do.
        schedule: A request's word for it.
        devices: Pipeline-parallel size.
        chunks: Stages on each device.
        group: Micro-batches that an interleaved schedule takes through a chunk in a row.
        stalls: Whether stages may recompute ahead of the gradient.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: str,
        devices: int,
        chunks: int,
        group: int = 0,
        *,
        stalls: bool = False,
    ) -> None:
        self._costs, self._frontiers, self._stalls = costs, frontiers, stalls
        self._stages = devices * chunks
        self._copies = 2 if schedule == "chimera" else 1
        self._depth = self._stages // self._copies
        self._splits_backward = schedule.startswith("zb-")
        self._held_by = [
            [s for s in range(self._stages) if device_of(schedule, s, devices) == device]
            for device in range(devices)
        ]
        n = costs.micro_batches
        orders = [order_of(schedule, d, devices, chunks, n, group) for d in range(devices)]
        if stalls:
            orders = [_with_recompute(order) for order in orders]
        self._steps = list(_in_turn(orders, self._depth, schedule))
        self._moments = [
            _moments(order, held) for order, held in zip(orders, self._held_by, strict=True)
        ]
        self._ways: dict[tuple[int, ...], list[Way]] = {}
        self._fitting: dict[tuple[int, tuple[tuple[int, ...], ...]], list[Seconds]] = {}
        self._left = MOST_TASKS

    def splits(self) -> int:
        """How many there are."""
        return math.comb(len(self._costs.sequence) - 1, self._depth - 1)

    def faster_than(self, limit: float) -> float | None:
        """The makespan of some plan below a limit, the iteration's fixed seconds left out.

        None if there is none.

        Raises:
            TooMany: Nothing is known.
        """
        if self.splits() > MOST_SPLITS:
            raise TooMany
        length = len(self._costs.sequence)
        for cuts in itertools.combinations(range(1, length), self._depth - 1):
            edges = itertools.pairwise((0, *cuts, length))
            runs = [tuple(sorted(self._costs.sequence[a:b])) for a, b in edges] * self._copies
            found = self._of_split(runs, limit)
            if found is not None:
                return found
        return None

    def _of_split(self, runs: list[tuple[int, ...]], limit: float) -> float | None:
        times = [self._passes(run) for run in runs]
        passes = self._costs.micro_batches // self._copies
        for held in self._held_by:
            if passes * sum(sum(times[stage].values()) for stage in held) >= limit:
                return None
        ways = [
            self._of_device(device, tuple(runs[stage] for stage in held))
            for device, held in enumerate(self._held_by)
        ]
        if not all(ways):
            return None
        # A path has what runs ahead no more often than what runs on demand.
        least = [(0.0, 0.0)] * self._stages
        for held, mine in zip(self._held_by, ways, strict=True):
            for place, stage in enumerate(held):
                seconds = min(sum(way[place]) for way in mine)
                least[stage] = (0.0, seconds) if self._stalls else (seconds, 0.0)
                if len(mine) == 1:
                    least[stage] = mine[0][place]
        return self._decide(0, ways, runs, times, least, limit)

    def _decide(
        self,
        device: int,
        ways: list[list[Seconds]],
        runs: list[tuple[int, ...]],
        times: list[dict[str, float]],
        again: list[tuple[float, float]],
        limit: float,
    ) -> float | None:
        """Devices before this one are decided, the others take the least on every stage."""
        makespan = self._makespan(runs, times, again)
        if makespan >= limit:
            return None
        while device < len(ways) and len(ways[device]) == 1:
            device += 1
        if device == len(ways):
            return makespan
        for way in ways[device]:
            decided = list(again)
            for stage, seconds in zip(self._held_by[device], way, strict=True):
                decided[stage] = seconds
            found = self._decide(device + 1, ways, runs, times, decided, limit)
            if found is not None:
                return found
        return None

    # -- time ---------------------------------------------------------------------------------

    def _passes(self, run: tuple[int, ...]) -> dict[str, float]:
        """Seconds of a stage's passes, recompute left out."""
        ops = [op for kind in run for op in self._costs.blocks[kind].ops]
        late = sum(op.weight_seconds for op in ops) if self._splits_backward else 0.0
        backward = sum(op.backward_seconds for op in ops) - late
        return {"F": sum(op.forward_seconds for op in ops), "B": backward, "W": late}

    def _makespan(
        self,
        runs: list[tuple[int, ...]],
        times: list[dict[str, float]],
        again: list[tuple[float, float]],
    ) -> float:
        """Every task as soon as it may."""
        self._left -= len(self._steps)
        if self._left < 0:
            raise TooMany
        costs = self._costs
        blocks = [[costs.blocks[kind] for kind in run] for run in runs]
        gathered, reduced = [], []
        for here, own in zip(blocks, times, strict=True):
            hidden = costs.gather_overlap * own["F"]
            gathered.append(max(sum(b.gather_seconds for b in here) - hidden, 0.0))
            hidden = costs.gradient_overlap * (own["B"] + own["W"])
            reduced.append(max(sum(b.gradient_seconds for b in here) - hidden, 0.0))
        seconds = [
            dict(own, B=own["B"] + on_demand, R=ahead)
            for own, (on_demand, ahead) in zip(times, again, strict=True)
        ]
        ends: list[float] = []
        final = [0.0] * self._stages
        for step in self._steps:
            start = gathered[step.stage] if step.before is None else ends[step.before]
            if step.needs is not None:
                ready = ends[step.needs] + (costs.send_seconds if step.far else 0.0)
                start = max(start, ready)
            end = start + seconds[step.stage][step.work]
            ends.append(end)
            final[step.stage] = end
        updated = [
            sum(block.optimizer_seconds for stage in held for block in blocks[stage])
            for held in self._held_by
        ]
        return max(map(sum, zip(final, reduced, strict=True))) + max(updated)

    # -- memory -------------------------------------------------------------------------------

    def _of_device(self, device: int, runs: tuple[tuple[int, ...], ...]) -> list[Seconds]:
        """The ways of a device that fit, none of them slower than another on all its stages."""
        key = (device, runs)
        if key not in self._fitting:
            options = [self._of_run(run) for run in runs]
            if math.prod(map(len, options)) > MOST_WAYS:
                raise TooMany
            fitting = {
                tuple(seconds for way in ways for seconds in way[:2])
                for ways in itertools.product(*options)
                if self._fits(device, runs, ways)
            }
            self._fitting[key] = [
                tuple(zip(row[::2], row[1::2], strict=True)) for row in _least(sorted(fitting))
            ]
        return self._fitting[key]

    def _fits(self, device: int, runs: tuple[tuple[int, ...], ...], ways: tuple[Way, ...]) -> bool:
        costs = self._costs
        blocks = [[costs.blocks[kind] for kind in run] for run in runs]
        every = list(itertools.chain(*blocks))
        waits = [sum(block.weight_held_bytes for block in here) for here in blocks]
        peak = sum(b.update_bytes for b in every) + max(b.working_bytes for b in every)
        for moment in self._moments[device]:
            held = sum(count * way[2] for count, way in zip(moment.alive, ways, strict=True))
            held += sum(count * size for count, size in zip(moment.waiting, waits, strict=True))
            peak = max(peak, held + (0.0 if moment.acting is None else ways[moment.acting][3]))
        needed = peak + sum(block.states.total for block in every) + costs.reserved_bytes
        return needed <= costs.capacity_bytes

    def _of_run(self, run: tuple[int, ...]) -> list[Way]:
        """What a stage of these blocks may do, no way worse than another in everything."""
        if run not in self._ways:
            # Seconds, kept bytes, the largest buffer of a block, all rebuilt bytes, working bytes.
            sums: list[tuple[float, ...]] = [(0.0, 0.0, 0.0, 0.0, 0.0)]
            for kind in run:
                front, working = self._frontiers[kind], self._costs.blocks[kind].working_bytes
                each = list(
                    zip(
                        front.seconds.tolist(),
                        front.kept.tolist(),
                        front.rebuilt.tolist(),
                        strict=True,
                    )
                )
                if len(sums) * len(each) > MOST_WAYS:
                    raise TooMany
                added = {
                    (
                        a + seconds,
                        b + kept,
                        max(c, rebuilt + working),
                        d + rebuilt if self._stalls else 0.0,
                        max(e, working),
                    )
                    for a, b, c, d, e in sums
                    for seconds, kept, rebuilt in each
                }
                sums = _least(sorted(added))
            ways = {(a, 0.0, b, c) for a, b, c, _, _ in sums}
            if self._stalls:
                ways |= {(0.0, a, b, d + e) for a, b, _, d, e in sums}
            self._ways[run] = [(a, b, c, d) for a, b, c, d in _least(sorted(ways))]
        return self._ways[run]


def _with_recompute(order: list[Task]) -> list[Task]:
    """The order with R(s, m) just before each B(s, m)."""
    found: list[Task] = []
    for work, stage, m in order:
        found += [("R", stage, m)] if work == "B" else []
        found.append((work, stage, m))
    return found


def _in_turn(orders: list[list[Task]], depth: int, schedule: str) -> Iterator[_Step]:
    """All tasks, each after those that it waits for."""
    devices = len(orders)
    at: dict[Task, int] = {}
    place: list[int] = [0] * devices
    last: list[int | None] = [None] * devices
    total = sum(map(len, orders))
    while len(at) < total:
        before = len(at)
        for device, order in enumerate(orders):
            while place[device] < len(order):
                task = order[place[device]]
                needs = _needs(task, depth)
                if needs is not None and needs not in at:
                    break
                far = needs is not None and device_of(schedule, needs[1], devices) != device
                wait = None if needs is None else at[needs]
                yield _Step(task[0], task[1], last[device], wait, far)
                at[task] = last[device] = len(at)
                place[device] += 1
        assert len(at) > before, "the order of the schedule deadlocks"


def _needs(task: Task, depth: int) -> Task | None:
    """What a task waits for on another stage, or of its own micro-batch."""
    work, stage, m = task
    if work == "F":
        return None if stage % depth == 0 else ("F", stage - 1, m)
    if work == "B":
        return ("F", stage, m) if stage % depth == depth - 1 else ("B", stage + 1, m)
    return ("B", stage, m) if work == "W" else None


def _moments(order: list[Task], held: list[int]) -> list[_Moment]:
    """When a backward begins, and where gradients of weights wait, after every task."""
    alive, waiting = dict.fromkeys(held, 0), dict.fromkeys(held, 0)
    found: dict[_Moment, None] = {}

    def note(acting: int | None) -> None:
        found[_Moment(acting, tuple(alive.values()), tuple(waiting.values()))] = None

    late = any(work == "W" for work, _, _ in order)
    for work, stage, _ in order:
        if work == "F":
            alive[stage] += 1
        elif work == "B":
            note(held.index(stage))
            alive[stage] -= 1
            waiting[stage] += late
        elif work == "W":
            waiting[stage] -= 1
        if late:
            note(None)
    return list(found)


def _least(vectors: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Vectors that no other is at most in every place; ``vectors`` are distinct and sorted."""
    kept: list[tuple[float, ...]] = []
    for vector in vectors:
        if not any(all(a <= b for a, b in zip(one, vector, strict=True)) for one in kept):
            kept.append(vector)
    return kept
