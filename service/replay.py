"""A stored plan, replayed: when every pass of its iteration begins and ends, and what is held then.

Nothing is estimated here: the stages' times go through the exact simulator that judged the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.plan import Evaluation, LayoutAnswer, Plan, Stage
from solver.schedules import (
    Schedule,
    Simulation,
    StageTimes,
    Work,
    make_schedule,
    recomputing_ahead,
    schedule_graph,
    simulate,
)

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


class Kind(IntEnum):
    """What a device does while a bar lasts; it stalls where there is no bar."""

    FORWARD = 0
    BACKWARD = 1
    RECOMPUTE = 2
    COMMUNICATION = 3
    OPTIMIZER = 4
    WEIGHT = 5


@dataclass(frozen=True, eq=False)
class Bars:
    """What devices do when; arrays of shape (bars,), times in seconds, sorted by start.

    ``micro_batch`` is -1 for what happens once per iteration. ``stage`` counts virtual stages.
    ``Kind.WEIGHT`` are gradients of weights that the schedule makes apart from backward.
    """

    kind: Index
    device: Index
    stage: Index
    micro_batch: Index
    start: Floats
    end: Floats

    def __len__(self) -> int:
        return len(self.kind)

    def where(self, mask: npt.NDArray[np.bool_]) -> Bars:
        """The bars that ``mask`` picks."""
        return Bars(
            self.kind[mask],
            self.device[mask],
            self.stage[mask],
            self.micro_batch[mask],
            self.start[mask],
            self.end[mask],
        )

    def within(self, start: float, end: float) -> Bars:
        """The bars that are seen between two moments."""
        return self.where((self.end > start) & (self.start < end))


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The passes that decide how long the iteration takes, in time order; shape (passes,)."""

    device: Index
    start: Floats
    end: Floats


@dataclass(frozen=True, eq=False)
class Replay:
    """The iteration of a plan. ``cycle_seconds`` is a pass to and fro of the busiest device.

    ``hidden``: recompute seconds under the communication of each stage's backward, (stages,).
    """

    devices: int
    virtual_stages: int
    micro_batches: int
    bars: Bars
    critical: CriticalPath
    makespan: float
    cycle_seconds: float
    send_seconds: float
    hidden: Floats

    @cached_property
    def lanes(self) -> dict[tuple[int, Kind], tuple[Floats, Floats]]:
        """Starts and ends of the bars of a kind on a device, in time order."""
        bars = self.bars
        key = bars.device * len(Kind) + bars.kind
        order = np.argsort(key, kind="stable")  # within a key the order of starts stays
        found, first = np.unique(key[order], return_index=True)
        cuts = [*first.tolist(), len(key)]
        start, end = bars.start[order], bars.end[order]
        return {
            (int(value) // len(Kind), Kind(int(value) % len(Kind))): (start[a:b], end[a:b])
            for value, a, b in zip(found, cuts[:-1], cuts[1:], strict=True)
        }


def replay(plan: Plan | Evaluation) -> Replay:
    """Replay the iteration of an answer that has stages.

    Raises:
        ValueError: The answer has none.
    """
    if plan.layout is None or plan.micro_batches is None or not plan.stages:
        raise ValueError("the plan has no stages")
    schedule = schedule_of(plan.layout, plan.micro_batches)
    stages = plan.stages
    times = StageTimes.of(
        forward=[stage.forward_seconds for stage in stages],
        backward=[stage.backward_seconds for stage in stages],
        send=plan.pipeline_send_seconds,
        before_first=[stage.gather_seconds for stage in stages],
        after_last=[stage.reduction_seconds for stage in stages],
        step=[stage.step_seconds for stage in stages],
        weight=[stage.weight_gradient_seconds for stage in stages],
        recompute=[stage.ahead_seconds for stage in stages],
    )
    if any(stage.recomputes_ahead for stage in stages):
        schedule = recomputing_ahead(schedule)
    simulation = simulate(schedule_graph(schedule), times)
    cycle = np.zeros(schedule.devices)
    for position, stage in enumerate(stages):
        cycle[schedule.device(position)] += (
            stage.forward_seconds
            + stage.backward_seconds
            + stage.weight_gradient_seconds
            + stage.ahead_seconds
        )
    return Replay(
        devices=schedule.devices,
        virtual_stages=schedule.virtual_stages,
        micro_batches=schedule.micro_batches,
        bars=_bars(schedule, simulation, stages),
        critical=_critical(schedule, simulation),
        makespan=float(simulation.makespan[0]),
        cycle_seconds=float(cycle.max()),
        send_seconds=plan.pipeline_send_seconds,
        hidden=np.array([stage.hidden_recompute_seconds for stage in stages]),
    )


def schedule_of(layout: LayoutAnswer, micro_batches: int) -> Schedule:
    """The schedule that a layout runs."""
    return make_schedule(
        layout.schedule,
        layout.pipeline_parallel,
        micro_batches,
        layout.virtual_stages,
        layout.interleaving_group or 0,
    )


def _bars(schedule: Schedule, simulation: Simulation, stages: Sequence[Stage]) -> Bars:
    graph = simulation.graph
    work, stage, micro_batch = graph.tasks.T
    # Of pipelines side by side the second takes the micro-batches after those of the first.
    micro_batch = micro_batch + schedule.passes * (stage // schedule.depth)
    end = simulation.ends[: graph.nodes, 0]
    lasts = _durations(simulation)
    again = np.array([s.recompute_seconds - s.ahead_seconds for s in stages])[stage]
    start = end - lasts
    is_backward = work == Work.BACKWARD
    rebuilt = np.where(is_backward, start + np.minimum(again, lasts), start)
    rebuilds = rebuilt > start
    passes = (work != Work.RECOMPUTE) | (lasts > 0)
    rows = [
        _rows(
            np.array(_KINDS)[work[passes]],
            stage[passes],
            micro_batch[passes],
            rebuilt[passes],
            end[passes],
        ),
        _rows(
            np.full(int(rebuilds.sum()), Kind.RECOMPUTE),
            stage[rebuilds],
            micro_batch[rebuilds],
            start[rebuilds],
            rebuilt[rebuilds],
        ),
        *_once_per_iteration(schedule, simulation),
    ]
    kind, of, which, begin, finish = (np.concatenate(column) for column in zip(*rows, strict=True))
    place = np.array([schedule.device(number) for number in range(schedule.stages)])
    order = np.argsort(begin, kind="stable")
    return Bars(
        kind[order].astype(np.int64),
        place[of.astype(np.int64)][order],
        of[order].astype(np.int64),
        which[order].astype(np.int64),
        begin[order],
        finish[order],
    )


_KINDS = (Kind.FORWARD, Kind.BACKWARD, Kind.WEIGHT, Kind.RECOMPUTE)
"""How each kind of work is drawn."""


def _durations(simulation: Simulation) -> Floats:
    """How long each task of the graph lasts."""
    graph, times = simulation.graph, simulation.times
    work, stage, _ = graph.tasks.T
    table = np.stack([times.of_work(kind)[0] for kind in Work])
    return np.asarray(table[work, stage])


_Rows = tuple[Floats, Floats, Floats, Floats, Floats]


def _rows(
    kind: npt.ArrayLike,
    stage: npt.ArrayLike,
    micro_batch: npt.ArrayLike,
    start: npt.ArrayLike,
    end: npt.ArrayLike,
) -> _Rows:
    columns = np.broadcast_arrays(kind, stage, micro_batch, start, end)
    return tuple(np.atleast_1d(column).astype(np.float64) for column in columns)  # type: ignore[return-value]


def _once_per_iteration(schedule: Schedule, simulation: Simulation) -> list[_Rows]:
    """Gathering weights before the first pass, reducing gradients after the last, the update."""
    graph, times = simulation.graph, simulation.times
    every = np.arange(schedule.stages)
    last = simulation.ends[graph.last_of_stage, 0]
    done = last + times.after_last[0]
    gather = np.zeros(schedule.stages)  # only the first pass of a device waits for its gather
    opening = graph.previous[graph.previous >= graph.nodes] - graph.nodes
    gather[opening] = times.before_first[0][opening]
    update = float(done.max())
    begins = update + np.array(
        [
            times.step[0][[other for other in range(stage) if _same(schedule, other, stage)]].sum()
            for stage in range(schedule.stages)
        ]
    )
    rows = []
    for kind, start, end in (
        (Kind.COMMUNICATION, np.zeros(schedule.stages), gather),
        (Kind.COMMUNICATION, last, done),
        (Kind.OPTIMIZER, begins, begins + times.step[0]),
    ):
        lasts = end > start
        rows.append(_rows(kind, every[lasts], -1, start[lasts], end[lasts]))
    return [row for row in rows if len(row[1])]


def _same(schedule: Schedule, stage: int, other: int) -> bool:
    return schedule.device(stage) == schedule.device(other)


def _critical(schedule: Schedule, simulation: Simulation) -> CriticalPath:
    """Back from the task that ends last, each time to what was waited for.

    Where a task waited for its own device and for another alike, the path stays on the device.
    """
    graph, times = simulation.graph, simulation.times
    ends = simulation.ends[:, 0]
    slack = 1e-12 * float(ends.max(initial=0.0))
    node = int(graph.last_of_stage[np.argmax(ends[graph.last_of_stage] + times.after_last[0])])
    nodes = []
    while node < graph.nodes:
        nodes.append(node)
        previous, dependency = int(graph.previous[node]), int(graph.dependency[node])
        arrival = ends[dependency] + graph.sends[node] * times.send
        stays = previous < graph.nodes and ends[previous] >= arrival - slack
        node = previous if stays or dependency >= graph.nodes else dependency
    path = np.array(nodes[::-1])
    stage = graph.tasks[path, 1]
    device = np.array([schedule.device(number) for number in range(schedule.stages)])
    return CriticalPath(device[stage], ends[path] - _durations(simulation)[path], ends[path])
