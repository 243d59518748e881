"""Time and memory of decided stages, by the exact simulator and a sweep over the schedule.

This is what evaluations, baselines and answers are made of; nothing is optimised here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import Account, Block, PipelineCosts, States
from solver.memory import Allocated, allocated
from solver.partition.stages import Stage
from solver.schedules import Schedule, StageTimes, Work, critical_path, schedule_graph, simulate


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of one device when it holds most; the fields add up to ``total``."""

    states: States
    activations: float
    recompute: float
    working: float
    reserved: float
    staging: float = 0.0

    @property
    def total(self) -> float:
        """Everything together."""
        at_work = self.activations + self.recompute + self.working
        return self.states.total + at_work + self.staging + self.reserved


@dataclass(frozen=True)
class StageTime:
    """Seconds of one stage: per micro-batch, and once per iteration.

    ``weight`` are those of the gradients of weights where they are work of their own, else zero and
    part of ``backward``. ``hidden`` are those of recompute under communication, no part of it;
    ``ahead`` those of recompute ahead of the gradient, a part of it and none of ``backward``.
    """

    forward: float
    backward: float
    weight: float
    recompute: float
    ahead: float
    hidden: float
    before_first: float
    after_last: float
    step: float


@dataclass(frozen=True)
class Seconds:
    """Where the iteration goes, averaged over devices; the fields add up to the makespan."""

    by_account: dict[Account, float]
    recompute: float
    bubble: float
    pipeline_parallel: float
    data_parallel: float
    optimizer: float
    other: float


@dataclass(frozen=True)
class Assessment:
    """The exact time and memory of a plan.

    ``memory``, ``allocated`` and ``capacities``, the usable bytes, are by device; ``times``,
    ``in_flight`` and ``waiting_bytes``, what waits with one micro-batch's gradients of weights
    where they are made apart, are by stage.
    """

    makespan: float
    times: tuple[StageTime, ...]
    memory: tuple[DeviceMemory, ...]
    allocated: tuple[Allocated, ...]
    in_flight: tuple[int, ...]
    waiting_bytes: tuple[float, ...]
    seconds: Seconds
    capacities: tuple[float, ...]

    @property
    def peak_bytes(self) -> float:
        """The fullest device."""
        return max(memory.total for memory in self.memory)

    @property
    def fits(self) -> bool:
        """Whether every device holds what it must; equal sums in another order count as equal."""
        return all(
            memory.total <= capacity * (1 + 1e-12)
            for memory, capacity in zip(self.memory, self.capacities, strict=True)
        )

    @property
    def capacity_bytes(self) -> float:
        """The smallest device."""
        return min(self.capacities)


def assess(costs: PipelineCosts, schedule: Schedule, stages: tuple[Stage, ...]) -> Assessment:
    """Simulate the iteration and sweep the memory of every device."""
    of_stage = [costs.at(schedule.device(stage)) for stage in range(schedule.stages)]
    times = tuple(
        _stage_time(own, schedule, stage) for own, stage in zip(of_stage, stages, strict=True)
    )
    simulation = simulate(schedule_graph(schedule), stage_times(costs, times))
    makespan = float(simulation.makespan[0])
    sends = critical_path(simulation).sends * costs.send_seconds
    return Assessment(
        makespan=makespan + costs.fixed_seconds,
        times=times,
        memory=tuple(
            _device_memory(costs.at(device), schedule, stages, device)
            for device in range(schedule.devices)
        ),
        allocated=tuple(
            allocated(costs.at(device), schedule, stages, device)
            for device in range(schedule.devices)
        ),
        in_flight=tuple(schedule.in_flight(stage) for stage in range(schedule.stages)),
        waiting_bytes=tuple(_waiting_bytes(costs, schedule, stage) for stage in stages),
        seconds=_seconds(costs, schedule, stages, times, makespan, sends),
        capacities=tuple(costs.at(device).capacity_bytes for device in range(schedule.devices)),
    )


def stage_times(costs: PipelineCosts, times: tuple[StageTime, ...]) -> StageTimes:
    """The simulator's form of the stages' times."""
    return StageTimes.of(
        forward=[time.forward for time in times],
        backward=[time.backward for time in times],
        send=costs.send_seconds,
        before_first=[time.before_first for time in times],
        after_last=[time.after_last for time in times],
        step=[time.step for time in times],
        weight=[time.weight for time in times],
        recompute=[time.ahead for time in times],
    )


def _blocks(costs: PipelineCosts, stage: Stage) -> list[Block]:
    return [costs.blocks[kind] for kind in costs.sequence[stage.start : stage.stop]]


def _stage_time(costs: PipelineCosts, schedule: Schedule, stage: Stage) -> StageTime:
    blocks = _blocks(costs, stage)
    forward = sum(block.forward_seconds for block in blocks)
    plain = sum(block.backward_seconds for block in blocks)
    weight = sum(block.weight_seconds for block in blocks) if schedule.splits_backward else 0.0
    recompute = sum(part.seconds for part in stage.parts)
    hidden = sum(part.count * part.choice.hidden_seconds for part in stage.parts)
    ahead = recompute - costs.overlapping.charge * hidden if stage.ahead else 0.0
    gather = sum(block.gather_seconds for block in blocks)
    reduction = sum(block.gradient_seconds for block in blocks)
    return StageTime(
        forward=forward,
        backward=plain - weight + recompute - ahead,
        weight=weight,
        recompute=recompute,
        ahead=ahead,
        hidden=hidden,
        before_first=max(gather - costs.gather_overlap * forward, 0.0),
        after_last=max(reduction - costs.gradient_overlap * plain, 0.0),
        step=sum(block.optimizer_seconds for block in blocks),
    )


def _device_memory(
    costs: PipelineCosts, schedule: Schedule, stages: tuple[Stage, ...], device: int
) -> DeviceMemory:
    """The fullest moment of a device: some backward, its block's recompute buffer filled, or the
    optimizer's step, whose temporaries then count with its state.

    The sweep counts the micro-batches alive on each stage of the device before each backward of its
    order, and where gradients of weights are made apart those that wait for them; there also after
    each task.
    """
    mine = schedule.stages_of(device)
    order = schedule.order(device)
    work = order[:, 0]
    backward = work == Work.BACKWARD
    buffers = {stage: _buffer(costs, stages[stage]) for stage in mine}
    after, extra = np.zeros(len(order)), np.zeros(len(order))
    before = np.zeros(len(order))
    for stage in mine:
        here = order[:, 1] == stage
        kept = sum(part.kept_bytes for part in stages[stage].parts)
        waits = _waiting_bytes(costs, schedule, stages[stage])
        alive = np.cumsum(here & (work == Work.FORWARD)) - np.cumsum(here & backward)
        waiting = np.cumsum(here & backward) - np.cumsum(here & (work == Work.WEIGHT))
        after += alive * kept + waiting * waits
        before += (alive + (here & backward)) * kept + (waiting - (here & backward)) * waits
        extra[here] = sum(buffers[stage])
    held = np.where(backward, before + extra, 0.0)
    peak, between = int(held.argmax()), int(after.argmax())
    if schedule.splits_backward and after[between] > held[peak]:
        activations, recompute, working = float(after[between]), 0.0, 0.0
    else:
        activations = float(before[peak])
        recompute, working = buffers[int(order[peak, 1])]
    blocks = [block for stage in mine for block in _blocks(costs, stages[stage])]
    most = max(block.working_bytes for block in blocks)
    update = sum(block.update_bytes for block in blocks)
    if update + most > activations + recompute + working:
        activations, recompute, working = 0.0, 0.0, most
    else:
        update = 0.0
    return DeviceMemory(
        states=States(
            weights=sum(block.states.weights for block in blocks),
            gradients=sum(block.states.gradients for block in blocks),
            optimizer=update + sum(block.states.optimizer for block in blocks),
        ),
        activations=activations,
        recompute=recompute,
        working=working,
        reserved=costs.reserved_bytes - costs.staging_bytes,
        staging=costs.staging_bytes,
    )


def _waiting_bytes(costs: PipelineCosts, schedule: Schedule, stage: Stage) -> float:
    """What the gradients of weights of one micro-batch wait with, if they are made apart."""
    if not schedule.splits_backward:
        return 0.0
    return sum(block.weight_held_bytes for block in _blocks(costs, stage))


def _buffer(costs: PipelineCosts, stage: Stage) -> tuple[float, float]:
    """Recompute and working bytes of the block of the stage that needs most of both together.

    While a block runs backward, what the block before it placed in its windows is alive too. A
    stage that recomputes ahead holds what all of its blocks rebuild.
    """
    if stage.ahead:
        rebuilt = sum(part.count * part.choice.recompute_bytes for part in stage.parts)
        return rebuilt, max(costs.blocks[part.kind].working_bytes for part in stage.parts)
    found, early = [], 0.0
    for part in stage.parts:
        working = costs.blocks[part.kind].working_bytes
        found.append((part.recompute_bytes + early, working))
        early = part.choice.early_bytes
        if part.count > 1:
            found.append((part.recompute_bytes + early, working))
    return max(found, key=sum)


def _seconds(
    costs: PipelineCosts,
    schedule: Schedule,
    stages: tuple[Stage, ...],
    times: tuple[StageTime, ...],
    makespan: float,
    sends: float,
) -> Seconds:
    n, devices = schedule.passes, schedule.devices
    by_account = dict.fromkeys(Account, 0.0)
    for position, stage in enumerate(stages):
        for block in _blocks(costs.at(schedule.device(position)), stage):
            for op in block.ops:
                by_account[op.account] += n * (op.forward_seconds + op.backward_seconds) / devices
    recompute = n * sum(time.recompute for time in times) / devices
    once = sum(time.before_first + time.after_last for time in times) / devices
    step = max(
        sum(times[stage].step for stage in schedule.stages_of(device)) for device in range(devices)
    )
    idle = makespan - sum(by_account.values()) - recompute - once - step
    sends = max(min(sends, idle), 0.0)
    return Seconds(
        by_account=by_account,
        recompute=recompute,
        bubble=max(idle - sends, 0.0),
        pipeline_parallel=sends,
        data_parallel=once,
        optimizer=step,
        other=costs.fixed_seconds,
    )
