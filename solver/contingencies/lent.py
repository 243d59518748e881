"""A running plan whose replicas lend each other their stages: whether that fits, and its time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from solver.assess import Assessment, assess
from solver.contingencies.rerouted import Lanes, bound, rerouted
from solver.contingencies.running import Planned

_ORDERS = ("1f1b", "gpipe")
"""Schedules whose passes the list schedule of ``rerouted`` stands for."""


@dataclass(frozen=True)
class Lent:
    """Seconds of an iteration, its bound, and the memory that is left."""

    seconds: float
    lower_bound: float
    headroom_bytes: float


class Lending:
    """The stages of a running plan under fewer replicas, judged once for many failures."""

    def __init__(self, running: Planned) -> None:
        self._running = running
        self._judged: dict[int, Assessment] = {running.layout.data_parallel: running.assessment}

    def lent(self, lost: tuple[tuple[int, ...], ...]) -> Lent | None:
        """The plan when these stages are lost, by replica; None where it cannot be.

        It cannot where a stage has no replica left, where the fewer that are left do not hold their
        larger optimizer shards and a single micro-batch, or where stages share devices.
        """
        running = self._running
        layout = running.layout
        stages, replicas = layout.pipeline_parallel, layout.data_parallel
        if layout.virtual_stages > 1 or layout.schedule not in _ORDERS:
            return None
        alive = np.ones((stages, replicas), dtype=bool)
        for replica, gone in enumerate(lost):
            alive[list(gone), replica] = False
        left = alive.sum(axis=1)
        if not left.all():
            return None
        judged = [self._with_replicas(int(count)) for count in left]
        held = [_Held.of(running, one, stage) for stage, one in enumerate(judged)]
        if min(one.room for one in held) < 1:
            return None
        times = [one.times[stage] for stage, one in enumerate(judged)]
        lanes = Lanes(
            alive=alive,
            forward=tuple(time.forward for time in times),
            backward=tuple(time.backward + time.weight + time.ahead for time in times),
            before=tuple(time.before_first for time in times),
            after=tuple(time.after_last for time in times),
            step=tuple(time.step for time in times),
            send=running.costs.send_seconds,
            room=tuple(one.room for one in held),
        )
        seconds = rerouted(lanes, running.costs.micro_batches)
        lower = min(bound(lanes, running.costs.micro_batches), seconds)
        most = lanes.wide()
        return Lent(
            seconds + running.costs.fixed_seconds,
            lower + running.costs.fixed_seconds,
            min(one.left(count) for one, count in zip(held, most, strict=True)),
        )

    def _with_replicas(self, left: int) -> Assessment:
        """Time and memory of the same stages with so many replicas of each."""
        if left not in self._judged:
            running, layout = self._running, self._running.layout
            replicas = left * layout.context_parallel
            group = layout.sharding_group
            kept = group if group and replicas % group == 0 else 0
            costs = running.asked.costs(replace(layout, data_parallel=left, sharding_group=kept))
            staging = running.costs.staging_bytes
            costs = replace(
                costs,
                micro_batches=running.costs.micro_batches,
                reserved_bytes=costs.reserved_bytes + staging,
                staging_bytes=staging,
                staged_blocks=running.costs.staged_blocks,
            )
            self._judged[left] = assess(costs, running.schedule, running.stages)
        return self._judged[left]


@dataclass(frozen=True)
class _Held:
    """Bytes of a stage's device: all of them, what a micro-batch keeps, and the rest of its use.

    ``hosted``: micro-batches that its host has room for.
    """

    capacity: float
    kept: float
    rest: float
    hosted: float = math.inf

    @classmethod
    def of(cls, running: Planned, judged: Assessment, stage: int) -> _Held:
        memory = judged.memory[stage]
        kept = sum(part.kept_bytes for part in running.stages[stage].parts)
        away = sum(p.count * p.choice.offloaded_bytes for p in running.stages[stage].parts)
        host = running.costs.at(stage).host
        hosted = host.memory_bytes / away if host is not None and away else math.inf
        return cls(judged.capacities[stage], kept, memory.total - memory.activations, hosted)

    @property
    def room(self) -> int:
        """Micro-batches that it can keep."""
        here = (self.capacity - self.rest) / max(self.kept, 1.0)
        return math.floor(min(here, self.hosted) + 1e-9)

    def left(self, micro_batches: int) -> float:
        """What so many leave."""
        return self.capacity - self.rest - self.kept * micro_batches
