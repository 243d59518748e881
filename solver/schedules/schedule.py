"""What a pipeline schedule is: a placement of stages on devices and a fixed order of work on each.

A schedule knows nothing of durations. It is one small class; the graph, the exact simulator, the
critical paths and the memory sweep are made from its ``order`` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[np.int64]
"""Tasks in the order a device runs them: rows of (work, stage, micro-batch)."""


class Work(IntEnum):
    """The kinds of work a stage does for one micro-batch.

    Every schedule runs ``FORWARD`` and ``BACKWARD``. One that splits the backward pass runs the
    gradient of the weights as ``WEIGHT``, and ``BACKWARD`` is then that of the input alone; one
    that recomputes ahead runs the recompute as ``RECOMPUTE``, before its backward.
    """

    FORWARD = 0
    BACKWARD = 1
    WEIGHT = 2
    RECOMPUTE = 3


class Task(NamedTuple):
    """One piece of work: which kind, for which (virtual) stage and micro-batch."""

    work: Work
    stage: int
    micro_batch: int


class Schedule(ABC):
    """A fixed order of work on every device of a pipeline.

    Args:
        devices: Pipeline-parallel size p.
        micro_batches: Micro-batches n per iteration.
        virtual_stages: Model chunks per device v; stages are numbered 0 .. p v - 1 in model order.

    ``work`` names the kinds of work that the order holds, each for every stage and micro-batch.
    ``title`` is the schedule's name in a sentence, ``chunks`` how many virtual stages it is made
    for (None: any number above 1), ``even`` whether it divides devices and micro-batches in halves.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    chunks: ClassVar[int | None] = 1
    even: ClassVar[bool] = False
    work: tuple[Work, ...] = (Work.FORWARD, Work.BACKWARD)

    def __init__(self, devices: int, micro_batches: int, virtual_stages: int = 1) -> None:
        self.devices = devices
        self.micro_batches = micro_batches
        self.virtual_stages = virtual_stages

    @property
    def stages(self) -> int:
        """Number of (virtual) stages in model order."""
        return self.devices * self.virtual_stages

    @property
    def depth(self) -> int:
        """Stages that a micro-batch passes: all, or with pipelines side by side those of one."""
        return self.stages

    @property
    def passes(self) -> int:
        """Micro-batches that pass a stage: all n, or with pipelines side by side a part."""
        return self.micro_batches

    @property
    def splits_backward(self) -> bool:
        """Whether the gradient of the weights is work of its own."""
        return Work.WEIGHT in self.work

    def device(self, stage: int) -> int:
        """The device that holds a stage."""
        return stage % self.devices

    def stages_of(self, device: int) -> list[int]:
        """The stages on a device, in model order."""
        return list(self._placed[device])

    @cached_property
    def _placed(self) -> tuple[tuple[int, ...], ...]:
        """The stages of every device."""
        places = [self.device(stage) for stage in range(self.stages)]
        held: list[list[int]] = [[] for _ in range(self.devices)]
        for stage, place in enumerate(places):
            held[place].append(stage)
        return tuple(map(tuple, held))

    @abstractmethod
    def order(self, device: int) -> Order:
        """All tasks of a device in the order it runs them."""

    def in_flight(self, stage: int) -> int:
        """Most micro-batches whose forward on this stage ran and whose backward has not ended."""
        order = self.order(self.device(stage))
        mine = order[order[:, 1] == stage, 0]
        passed = (mine == Work.FORWARD).astype(np.int64) - (mine == Work.BACKWARD)
        return int(passed.cumsum().max())

    def resized(self, devices: int, micro_batches: int) -> Self:
        """The same schedule over other numbers of devices and micro-batches."""
        return type(self)(devices, micro_batches, self.virtual_stages)

    def key(self) -> tuple[str, int, int, int]:
        """What identifies the order: schedules with equal keys have equal graphs."""
        return (self.name, self.devices, self.micro_batches, self.virtual_stages)


def tasks(work: Work, stage: int, micro_batches: npt.ArrayLike) -> Order:
    """Rows of one kind of work of one stage, for these micro-batches in this order."""
    numbers = np.asarray(micro_batches, dtype=np.int64)
    rows = np.empty((len(numbers), 3), dtype=np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = work, stage, numbers
    return rows


def alternate(warm_up: int, forwards: Order, backwards: Order) -> Order:
    """``warm_up`` forwards, then forward and backward in turn, then the backwards left."""
    steady = len(forwards) - warm_up
    order = np.empty((len(forwards) + len(backwards), 3), dtype=np.int64)
    order[:warm_up] = forwards[:warm_up]
    turns = order[warm_up : warm_up + 2 * steady]
    turns[0::2], turns[1::2] = forwards[warm_up:], backwards[:steady]
    order[warm_up + 2 * steady :] = backwards[steady:]
    return order


def delayed(order: Order, weights: Order, lag: int) -> Order:
    """The order with gradients of weights after its backwards, the first after ``lag`` of them.

    ``weights`` follows the order's backwards; its last ``lag`` rows stand at the end.
    """
    ends = np.flatnonzero(order[:, 0] == Work.BACKWARD)
    late = min(lag, len(weights))
    followed = ends[late:] + 1
    rest = len(weights) - late
    begun = np.insert(order, followed, weights[:rest], axis=0)
    return np.concatenate([begun, weights[rest:]])


class ByKey:
    """A schedule hashed by its key, so that a cache holds one entry per order."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def __hash__(self) -> int:
        return hash(self.schedule.key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByKey) and self.schedule.key() == other.schedule.key()
