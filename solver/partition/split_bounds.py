"""Bounds of whole splits where stages share devices: each device's chain, with what it recomputes.

A split is given by its edges, so that stage s holds the blocks from ``edges[s]`` to
``edges[s + 1]``. Its makespan is at least the chain of every device (``device_chains.py``). What a
device recomputes at least follows from one moment of its memory (``schedules/moments.py``), the one
at which most micro-batches are alive: there its chunks are a single stage whose blocks weigh as
much as micro-batches of their chunk are alive, and where only the acting chunk needs a buffer
(``free_menu.py`` has the bound).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.device_chains import device_chains
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Floats, Index
from solver.partition.runs import RunTotals, Signatures
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule, Work
from solver.schedules.moments import moments


class SplitBounds:
    """Bounds of splits under one schedule; the arguments are those of ``SharedProblem``."""

    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: Schedule,
        runs: Signatures,
        totals: RunTotals,
    ) -> None:
        self._costs, self._frontiers, self._schedule = costs, frontiers, schedule
        self._runs, self._totals = runs, totals
        self._chains = device_chains(schedule)
        self._menus: dict[int, tuple[FreeMenu, Floats]] = {}

    def chains(self, edges: Index) -> Floats:
        """Every device's chain without recompute, shape (splits, devices)."""
        first = self._runs.of_run[0, 1:]
        copies = self._schedule.stages // self._schedule.depth
        fixed = [chain.sends * self._costs.send_seconds for chain in self._chains]
        total: Floats = np.tile(np.array(fixed), (len(edges), 1))
        for counts, seconds in self._weighed():
            along = np.concatenate([[0.0], seconds[first]])[edges]
            times = np.diff(along, axis=1)
            by_stage = counts.reshape(len(self._chains), copies, -1).sum(axis=1)
            total += times @ by_stage.T
        return total

    def _weighed(self) -> list[tuple[Floats, Floats]]:
        """How often each device's chain counts each stage, and the seconds of a signature."""
        totals = self._totals
        seconds = {
            Work.FORWARD: totals.forward,
            Work.BACKWARD: totals.backward,
            Work.WEIGHT: totals.weight,
        }
        parts = [
            (
                np.array([chain.count(work) for chain in self._chains], dtype=np.float64),
                seconds[work],
            )
            for work in self._schedule.work
            if work in seconds
        ]
        if len(parts) == 2 and (parts[0][0] == parts[1][0]).all():
            parts = [(parts[0][0], parts[0][1] + parts[1][1])]
        if totals.step.any():
            mine = np.zeros_like(parts[0][0])
            for device in range(self._schedule.devices):
                mine[device, self._schedule.stages_of(device)] = 1.0
            parts.append((mine, totals.step))
        return parts

    def bounds(self, edges: Index) -> Floats:
        """A lower bound of every split's makespan, recompute included; infinite if none fits."""
        schedule = self._schedule
        copies = schedule.stages // schedule.depth
        signature = np.tile(self._runs.of_run[edges[:, :-1], edges[:, 1:]], (1, copies))
        chains = self.chains(edges)
        for device in range(schedule.devices):
            mine = signature[:, schedule.stages_of(device)]
            distinct, which = np.unique(mine, axis=0, return_inverse=True)
            extra = self._recompute(device, distinct)
            chains[:, device] += schedule.passes * extra[which.ravel()]
        return np.asarray(chains.max(axis=1))

    def _recompute(self, device: int, signatures: Index) -> Floats:
        """Least recompute seconds of a device's chunks together, shape (contents,)."""
        menu, waiting = self._menu(device)
        counts = self._runs.counts[signatures]  # (contents, chunks, kinds)
        states = self._totals.states[signatures].sum(axis=1)
        held = np.array([block.weight_held_bytes for block in self._costs.blocks])
        states = states + (counts @ held) @ waiting
        flat = counts.reshape(len(counts), -1)
        return menu.bounds(flat, states, np.ones(len(flat), dtype=np.int64))

    def _menu(self, device: int) -> tuple[FreeMenu, Floats]:
        """The chunks as one stage at the moment when most is alive, and what waits there."""
        if device not in self._menus:
            found = [m for m in moments(self._schedule, device) if m.acting is not None]
            fullest = max(found, key=lambda moment: sum(moment.alive))
            blocks, fronts = [], []
            stages = self._schedule.stages_of(device)
            for stage, alive in zip(stages, fullest.alive, strict=True):
                acts = stage == fullest.acting
                for block, front in zip(self._costs.blocks, self._frontiers, strict=True):
                    blocks.append(block if acts else replace(block, working_bytes=0.0))
                    rebuilt = front.rebuilt if acts else np.zeros_like(front.rebuilt)
                    kept = alive * front.kept
                    fronts.append(Frontier(front.choices, kept, front.seconds, rebuilt))
            costs = replace(self._costs, blocks=tuple(blocks))
            waiting = np.array(fullest.waiting, dtype=np.float64)
            self._menus[device] = FreeMenu(costs, tuple(fronts)), waiting
        return self._menus[device]
