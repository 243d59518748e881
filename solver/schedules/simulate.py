"""The exact simulator: when every task of a schedule ends, for one or many pipelines at once.

The iteration is more than the passes: a stage may first gather its weights (``before_first``), and
after its last pass it reduces its gradients (``after_last``); when all have, every device
updates its stages' weights (``step``). Its makespan is

    max over s of (end of the last task of s + after_last[s])
    + max over devices d of the sum of step[s] over the stages s of d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.schedules.graph import ScheduleGraph
from solver.schedules.schedule import Work

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StageTimes:
    """Seconds per stage, each of shape (candidates, stages); ``send`` is one number.

    ``forward``, ``backward``, ``weight`` and ``recompute`` are for one micro-batch, the latter two
    apart from ``backward`` and None where no time is spent so; the others happen once per
    iteration.
    """

    forward: Floats
    backward: Floats
    send: float
    before_first: Floats
    after_last: Floats
    step: Floats
    weight: Floats | None = None
    recompute: Floats | None = None

    @classmethod
    def of(
        cls,
        forward: npt.ArrayLike,
        backward: npt.ArrayLike,
        send: float = 0.0,
        before_first: npt.ArrayLike | None = None,
        after_last: npt.ArrayLike | None = None,
        step: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        recompute: npt.ArrayLike | None = None,
    ) -> StageTimes:
        """Times from arrays of shape (stages,) or (candidates, stages); absent parts are zero."""
        ahead = np.atleast_2d(np.asarray(forward, dtype=np.float64))

        def part(values: npt.ArrayLike | None) -> Floats:
            if values is None:
                return np.zeros_like(ahead)
            return np.atleast_2d(np.asarray(values, dtype=np.float64))

        back = np.atleast_2d(np.asarray(backward, dtype=np.float64))
        return cls(
            forward=ahead,
            backward=back,
            send=send,
            before_first=part(before_first),
            after_last=part(after_last),
            step=part(step),
            weight=None if weight is None else part(weight),
            recompute=None if recompute is None else part(recompute),
        )

    def same_passes(self, other: StageTimes) -> bool:
        """Whether recompute takes as long in both, of the same plans."""
        same = np.array_equal(self.backward, other.backward)
        return same and np.array_equal(self.of_work(Work.RECOMPUTE), other.of_work(Work.RECOMPUTE))

    def of_work(self, work: Work) -> Floats:
        """Seconds of one kind of work for one micro-batch."""
        found = (self.forward, self.backward, self.weight, self.recompute)[work]
        return np.zeros_like(self.forward) if found is None else found


@dataclass(frozen=True, eq=False)
class Simulation:
    """End times of shape (nodes + sources, candidates) and makespans of shape (candidates,)."""

    graph: ScheduleGraph
    times: StageTimes
    ends: Floats
    makespan: Floats


def simulate(graph: ScheduleGraph, times: StageTimes) -> Simulation:
    """Run the schedule exactly, level by level, for every candidate."""
    table = np.concatenate([times.of_work(work) for work in graph.schedule.work], axis=1)
    durations = table.T[graph.duration]
    sends = (graph.sends * times.send)[:, None]
    candidates = durations.shape[1]
    ends = np.zeros((graph.nodes + graph.stages + 1, candidates))
    ends[graph.nodes : graph.nodes + graph.stages] = times.before_first.T
    previous, dependency = graph.previous, graph.dependency
    for low, high in graph.levels:
        arrived = ends[dependency[low:high]]
        arrived += sends[low:high]
        np.maximum(arrived, ends[previous[low:high]], out=arrived)
        arrived += durations[low:high]
        ends[low:high] = arrived
    passes = (ends[graph.last_of_stage] + times.after_last.T).max(axis=0)
    return Simulation(graph, times, ends, passes + device_steps(graph, times.step).max(axis=1))


def device_steps(graph: ScheduleGraph, step: Floats) -> Floats:
    """Update seconds per device, shape (candidates, devices)."""
    schedule = graph.schedule
    if schedule.virtual_stages == 1:
        return step
    held = np.zeros((schedule.stages, schedule.devices))
    for stage in range(schedule.stages):
        held[stage, schedule.device(stage)] = 1.0
    return np.asarray(step @ held)
