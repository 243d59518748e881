"""Paths with prices per byte: lower bounds of plans that are sums over their blocks.

A path's length is a sum over blocks of something that depends on the block's stage. With a price
per byte of a device's memory, so is a bound of what the memory makes it recompute at least: of
every block the cheapest choice, time and priced bytes together, less the price of all bytes that
there are (weak duality, as in ``free_menu.py``). Bytes are those of the moment at which most
micro-batches are alive (``schedules/moments.py``), buffers left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.levels import levels
from solver.partition.menu import Floats, Index
from solver.recompute.frontier import Frontier
from solver.schedules import Path, Schedule, Work
from solver.schedules.moments import moments


@dataclass(frozen=True, eq=False)
class PricedPath:
    """A lower bound of every plan: ``constant`` plus, over its blocks, seconds by stage and kind.

    ``seconds`` has shape (stages, kinds).
    """

    seconds: Floats
    constant: float


def least_runs(path: Path) -> Floats:
    """How often each stage's recompute stands on a path at least, shape (stages,).

    With its backward if it is on demand; ahead of the gradient less often.
    """
    return np.minimum(path.backward, path.recompute or path.backward).astype(np.float64)


class Prices:
    """Priced paths of one pipeline whose stages share devices."""

    def __init__(
        self, costs: PipelineCosts, frontiers: tuple[Frontier, ...], schedule: Schedule
    ) -> None:
        self._costs, self._frontiers, self._schedule = costs, frontiers, schedule
        blocks, late = costs.blocks, schedule.splits_backward
        weight = np.array([block.weight_seconds * late for block in blocks])
        self._seconds = {
            Work.FORWARD: np.array([block.forward_seconds for block in blocks]),
            Work.BACKWARD: np.array([block.backward_seconds for block in blocks]) - weight,
            Work.WEIGHT: weight,
        }
        self._step = np.array([block.optimizer_seconds for block in blocks])
        self._states = np.array([block.states.total for block in blocks])
        self._held = np.array([block.weight_held_bytes for block in blocks])
        self._room = costs.capacity_bytes - costs.reserved_bytes
        stages = schedule.stages
        self._alive, self._waiting = np.zeros(stages), np.zeros(stages)
        for device in range(schedule.devices):
            mine = schedule.stages_of(device)
            fullest = max(moments(schedule, device), key=lambda moment: sum(moment.alive))
            self._alive[mine], self._waiting[mine] = fullest.alive, fullest.waiting
        per_byte = levels(frontiers, tuple(block.working_bytes for block in blocks))
        self._per_byte = per_byte.at(len(per_byte.values) - 1).prices

    def free(self, path: Path) -> PricedPath:
        """A path with all memory for nothing."""
        return self.priced(path, np.zeros(self._schedule.devices))

    def priced(self, path: Path, price: Floats) -> PricedPath:
        """A path with a price per byte of each device."""
        schedule = self._schedule
        kinds = len(self._frontiers)
        seconds = np.zeros((schedule.stages, kinds))
        for work, of_kind in self._seconds.items():
            if work in schedule.work:
                seconds += np.outer(path.count(work), of_kind)
        seconds[list(path.step)] += self._step
        place = [schedule.device(stage) for stage in range(schedule.stages)]
        own = price[place]
        times = least_runs(path)
        for kind, front in enumerate(self._frontiers):
            choices = times[:, None] * front.seconds + (own * self._alive)[:, None] * front.kept
            seconds[:, kind] += choices.min(axis=1)
        seconds += own[:, None] * (self._states + self._waiting[:, None] * self._held)
        constant = path.sends * self._costs.send_seconds - float(price.sum()) * self._room
        return PricedPath(seconds, constant)

    def best(self, path: Path, counts: Index) -> Floats:
        """The prices at which a path bounds a plan best, by device; zero where all is kept.

        ``counts`` are the plan's blocks by stage and kind, shape (stages, kinds).
        """
        schedule = self._schedule
        found = np.zeros(schedule.devices)
        for device in range(schedule.devices):
            mine = schedule.stages_of(device)
            times = least_runs(path)[mine]
            alive, held = self._alive[mine], counts[mine]
            fixed = float((held @ self._states).sum() + self._waiting[mine] @ (held @ self._held))
            most = sum(
                float(alive @ held[:, kind]) * float(front.kept[front.seconds.argmin()])
                for kind, front in enumerate(self._frontiers)
            )
            if fixed + most <= self._room or not times.any():
                continue
            worth = np.unique(times[alive > 0] / alive[alive > 0])
            price = np.unique(np.outer(worth, self._per_byte))
            value = price * (fixed - self._room)
            for kind, front in enumerate(self._frontiers):
                for chunk in np.flatnonzero(held[:, kind]).tolist():
                    choices = times[chunk] * front.seconds
                    choices = choices + np.outer(price * alive[chunk], front.kept)
                    value += held[chunk, kind] * choices.min(axis=1)
            found[device] = price[int(value.argmax())]
        return found
