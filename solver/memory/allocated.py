"""Allocated bytes of a device over an iteration, and the moment when they are most.

What the framework's allocator hands out: states, the libraries' workspaces, and the tensors of
every task in the order of the schedule. The context, communicators and the allocator's own slack
are not allocated in this sense; they stand in the reserve.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block, PipelineCosts
from solver.memory.liveness import Passes, passes
from solver.partition.menu import Floats, Part
from solver.partition.stages import Stage
from solver.schedules import Schedule, Work


class Moment(StrEnum):
    """The part of an iteration in which a device holds most."""

    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "optimizer step"


@dataclass(frozen=True)
class Allocated:
    """Bytes of one device: between iterations, and at most, when and in which stage."""

    steady: float
    peak: float
    moment: Moment
    stage: int


def allocated(
    costs: PipelineCosts, schedule: Schedule, stages: tuple[Stage, ...], device: int
) -> Allocated:
    """Sweep the tasks of a device in their order.

    During a task a micro-batch's own tensors stand beside what the other micro-batches in flight
    keep: of the stage's blocks before the one at work all that they keep, of the later ones what
    is left of them. Between iterations a stage still holds the last input that it received, and
    that input's gradient (Megatron-LM's models remember their input, ``set_input_tensor``).
    """
    mine = schedule.stages_of(device)
    blocks = [block for stage in mine for block in _blocks(costs, stages[stage])]
    # Of what is staged, the block at work has its own tensors counted in its passes.
    states = costs.workspace_bytes + sum(block.states.total for block in blocks)
    staged = max(costs.staged_blocks, 1)
    states += costs.staging_bytes * (staged - 1) / staged
    received = sum(2 * costs.boundary_bytes for stage in mine if stage > 0)
    steady = states + received
    running = states - sum(block.step_bytes for block in blocks)
    order = schedule.order(device)
    forward, backward = order[:, 0] == Work.FORWARD, order[:, 0] == Work.BACKWARD
    weight = order[:, 0] == Work.WEIGHT
    others, own = np.zeros(len(order)), np.zeros(len(order))
    for stage in mine:
        run = _run(costs, stages[stage])
        kept = sum(part.kept for part in run)
        here = order[:, 1] == stage
        change = np.select([here & forward, here & backward], [kept, -kept], 0.0)
        after = np.cumsum(change)
        others += after - np.where(here & forward, kept, 0.0)
        others += _deferred(costs, stages[stage], np.cumsum(here & backward) - (here & backward))
        own[here & forward] = _most(run, [part.forward_peak for part in run])
        own[here & backward] = _most(
            run, [part.backward_peak for part in run], _beside(run, ahead=stages[stage].ahead)
        )
        if schedule.splits_backward:
            waits = sum(b.weight_held_bytes for b in _blocks(costs, stages[stage]))
            ended, made = np.cumsum(here & backward), np.cumsum(here & weight)
            others += waits * (ended - made + (here & weight))
    total = running + others + own
    at = int(total.argmax())
    step = steady + sum(block.update_bytes for block in blocks)
    if total[at] <= step:
        return Allocated(steady, step, Moment.STEP, mine[-1])
    moment = Moment.FORWARD if forward[at] else Moment.BACKWARD
    return Allocated(steady, float(total[at]), moment, int(order[at, 1]))


def _blocks(costs: PipelineCosts, stage: Stage) -> list[Block]:
    return [costs.blocks[kind] for kind in costs.sequence[stage.start : stage.stop]]


def _deferred(costs: PipelineCosts, stage: Stage, ended: npt.NDArray[np.int64]) -> Floats:
    """What a stage's ended backwards left for the end of the iteration."""
    total = np.zeros(len(ended))
    for block in _blocks(costs, stage):
        total += block.deferred_bytes * np.minimum(ended, block.deferred_passes)
    return total


def _run(costs: PipelineCosts, stage: Stage) -> list[Passes]:
    """The passes of a stage's blocks, in model order; of a kind's parts the first come first."""
    waiting: dict[int, list[Passes]] = defaultdict(list)
    for part in stage.parts:
        waiting[part.kind].extend(_passes_of(costs.blocks[part.kind], part, stage.ahead))
    return [waiting[kind].pop(0) for kind in costs.sequence[stage.start : stage.stop]]


def _passes_of(block: Block, part: Part, ahead: bool) -> list[Passes]:
    """One entry per block; of a group the first keeps the input and the last rebuilds them all."""
    found = []
    for start in range(0, part.count, part.group):
        size = min(part.group, part.count - start)
        whole = passes(block, part.choice, size, ahead=ahead)
        inner = Passes(0.0, whole.forward_peak, whole.backward_peak - whole.kept)
        found += [whole, *[inner] * (size - 1)]
    return found


def _beside(run: list[Passes], *, ahead: bool) -> list[float]:
    """What blocks before each one rebuilt early and hold while it runs backward.

    Of a stage that recomputes ahead those are all, else what stands in the block's own windows.
    """
    early = [0.0, *(block.early for block in run[:-1])]
    return list(itertools.accumulate(early)) if ahead else early


def _most(run: list[Passes], peaks: list[float], beside: list[float] | None = None) -> float:
    """The most that a pass through a stage holds of its own micro-batch."""
    before, most = 0.0, 0.0
    for block, peak, more in zip(run, peaks, beside or [0.0] * len(run), strict=True):
        most = max(most, before + peak + more)
        before += block.kept
    return most
