"""Paths through a schedule's graph: each is a lower bound of the makespan that is linear in times.

A path visits tasks and counts how often each stage's work of each kind stands on it. Whatever the
partition, the makespan is at least the length of every path; the critical path attains it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.schedules.schedule import Work
from solver.schedules.simulate import Floats, Simulation, StageTimes, device_steps


@dataclass(frozen=True)
class Path:
    """How often each stage's work stands on a path, as tuples over stages.

    ``first`` and ``last`` name the stage whose ``before_first`` and ``after_last`` the path
    includes, or None; ``step`` names the stages whose updates it includes, all of one device.
    ``weight`` and ``recompute`` are empty where the schedule has no such work.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    sends: int
    first: int | None = None
    last: int | None = None
    step: tuple[int, ...] = ()
    weight: tuple[int, ...] = ()
    recompute: tuple[int, ...] = ()

    def count(self, work: Work) -> tuple[int, ...]:
        """How often each stage's work of this kind stands on the path; may be empty."""
        return (self.forward, self.backward, self.weight, self.recompute)[work]

    def length(self, times: StageTimes) -> Floats:
        """The path's length for every candidate, shape (candidates,)."""
        total = np.full(len(times.forward), self.sends * times.send)
        for work in Work:
            if self.count(work):
                total += times.of_work(work) @ np.array(self.count(work), dtype=np.float64)
        for stage, part in ((self.first, times.before_first), (self.last, times.after_last)):
            if stage is not None:
                total += part[:, stage]
        if self.step:
            total += times.step[:, self.step].sum(axis=1)
        return np.asarray(total)


def critical_path(simulation: Simulation, candidate: int = 0) -> Path:
    """The longest path of one simulated candidate; its length is the makespan."""
    graph, times = simulation.graph, simulation.times
    ends = simulation.ends[:, candidate]
    last = int(np.argmax(ends[graph.last_of_stage] + times.after_last[candidate]))
    counts: npt.NDArray[np.int64] = np.zeros((len(Work), graph.stages), dtype=np.int64)
    sends, first = 0, None
    node = int(graph.last_of_stage[last])
    while node < graph.nodes:
        work, stage, _ = graph.tasks[node]
        counts[work, stage] += 1
        previous, dependency = int(graph.previous[node]), int(graph.dependency[node])
        arrival = ends[dependency] + graph.sends[node] * times.send
        if arrival > ends[previous] or (arrival == ends[previous] and dependency < graph.nodes):
            sends += int(graph.sends[node])
            node = dependency
        else:
            node = previous
    if node < graph.nodes + graph.stages:
        first = node - graph.nodes
    busiest = int(np.argmax(device_steps(graph, times.step)[candidate]))
    found = {work: tuple(counts[work].tolist()) for work in graph.schedule.work}
    return Path(
        forward=found[Work.FORWARD],
        backward=found[Work.BACKWARD],
        sends=sends,
        first=first,
        last=last,
        step=tuple(graph.schedule.stages_of(busiest)),
        weight=found.get(Work.WEIGHT, ()),
        recompute=found.get(Work.RECOMPUTE, ()),
    )
