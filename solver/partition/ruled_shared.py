"""Stages that share devices under a policy that leaves nothing to choose: only the split is open.

A stage's recompute follows from its blocks, so a split is judged by simulating it and adding up its
devices' bytes at every moment. Few splits are all tried, which proves the best one; of many, blocks
are moved between stages while that helps, and the proof is the bound of ``shared.py``.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Bools, Cut
from solver.partition.footprints import Footprints, Moments, given_footprints
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Index, Menu, Mix, Part
from solver.partition.regime import Split
from solver.partition.shared import SharedProblem
from solver.partition.split_descent import Plan
from solver.partition.split_rows import SplitRows
from solver.recompute.frontier import Frontier, frontier_of
from solver.recompute.policies import least_memory
from solver.schedules import Schedule

MOST_SPLITS = 4_000
"""Splits up to which all are tried."""

TOGETHER = 256
"""Splits simulated at once."""


class RuledSharedProblem(SharedProblem):
    """One layout's partition over stages that share devices; arguments as ``SharedProblem``.

    ``menu`` has one mix for every run.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: Menu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
        split: Split | None = None,
    ) -> None:
        self._rule = menu
        least = tuple(frontier_of([least_memory(block)]) for block in costs.blocks)
        super().__init__(costs, FreeMenu(costs, least), schedule, admits, split)

    def _least_recompute(self) -> float:
        """Nothing: what a rule asks for depends on the split."""
        return 0.0

    def _bound_of(self, split: Split) -> float:
        """The longest device's work without recompute."""
        edges = np.array([[0, *(stop for _, stop in split)]])
        return float(self._split_bounds.chains(edges).max())

    def _relaxed_frontiers(self) -> tuple[Frontier, ...]:
        """Least memory for nothing: a rule's recompute has no bound of its own."""
        return tuple(
            replace(front, seconds=np.zeros_like(front.seconds)) for front in self._menu.frontiers
        )

    def _level(self, rows: SplitRows, plan: Plan, hulls: list[list[int]]) -> None:  # noqa: ARG002
        """There is nothing to choose."""
        self._keep_best([plan])

    def _is_small(self) -> bool:
        """Whether all splits are tried."""
        if self._split is not None:
            return True
        return math.comb(len(self._costs.sequence) - 1, self._schedule.depth - 1) <= MOST_SPLITS

    def _splits_are_few(self) -> bool:
        """Few splits are all simulated; a rule's blocks choose nothing that could be bounded."""
        return False

    def _ways(self, device: int, runs: Index) -> list[tuple[Mix, ...]]:
        """The rule's mixes, if the device can hold them."""
        if not self._admitted[runs].all():
            return []
        mixes = tuple(self._mix(int(run)) for run in runs)
        fits = self._bytes_of(device, runs, mixes) <= self._costs.capacity_bytes * (1 + 1e-12)
        return [mixes] if fits else []

    def _improve(self, deadline: float) -> None:
        """All splits where they are few, else from the first ones on."""
        if self._split is not None or not self._is_small():
            super()._improve(deadline)
            return
        inner = range(1, len(self._costs.sequence))
        ends = itertools.combinations(inner, self._schedule.depth - 1)
        every = (tuple(itertools.pairwise((0, *cuts, len(self._costs.sequence)))) for cuts in ends)
        while together := list(itertools.islice(every, TOGETHER)):
            self._try(together)
            if time.monotonic() > deadline:
                self._cut_short = True
                return

    _cut_short = False

    def _add_rows(self, deadline: float, cutoff: float) -> float:  # noqa: ARG002
        """Having tried all splits proves the best of them; nothing else is to be done."""
        return 0.0 if self._cut_short else self._best[0]

    def _with_mixes(self, cuts: tuple[Cut, ...]) -> Plan | None:
        """The rule's mixes, or None if a device cannot hold them."""
        runs = [int(self._signatures.of_run[cut]) for cut in cuts]
        if min(runs) < 0 or not self._admitted[runs].all():
            return None
        mixes = tuple(self._mix(run) for run in runs)
        for device in range(self._schedule.devices):
            if self._device_bytes(runs, mixes, device) > self._costs.capacity_bytes * (1 + 1e-12):
                return None
        return cuts, mixes

    def _mix(self, run: int) -> Mix:
        """What the rule makes of a run, whatever memory there is."""
        counts = tuple(self._signatures.counts[run].tolist())
        found = self._rule.cheapest(counts, -math.inf, 1)
        assert found is not None, "everything fits where states are endlessly small"
        return found

    def _device_bytes(self, runs: list[int], mixes: tuple[Mix, ...], device: int) -> float:
        """Bytes of a device at its fullest moment, of all stages' runs and mixes."""
        stages = self._schedule.stages_of(device)
        here = np.array([runs[stage] for stage in stages])
        return self._bytes_of(device, here, tuple(mixes[stage] for stage in stages))

    def _bytes_of(self, device: int, runs: Index, mixes: tuple[Mix, ...]) -> float:
        """Bytes of a device at its fullest moment, of its own chunks' runs and mixes."""
        ways = np.array([self._way(mix) for mix in mixes])
        waits = self._signatures.counts[runs] @ [b.weight_held_bytes for b in self._costs.blocks]
        needed = Moments.of(self._schedule, device).needed(ways[:, 0], ways[:, 1], waits)
        states = float(self._totals.states[runs].sum())
        return states + float(needed.max()) + self._costs.reserved_bytes

    def _footprints(self) -> Footprints:
        """Every run in the one way that the rule makes of it."""
        runs = range(len(self._signatures.counts))
        return given_footprints(
            self._costs, self._signatures.counts, [[self._way(self._mix(run))] for run in runs]
        )

    def _way(self, mix: Mix) -> tuple[float, float]:
        """Kept bytes of a micro-batch, and the largest buffer."""
        parts = self._rule.parts(mix)
        return sum(part.kept_bytes for part in parts), self._buffer(mix, parts)

    def _buffer(self, mix: Mix, parts: tuple[Part, ...]) -> float:
        """What a stage rebuilds into: its largest block's, or ahead of the gradient all blocks'."""
        working = [self._costs.blocks[part.kind].working_bytes for part in parts]
        if mix.ahead:
            return max(working) + sum(p.count * p.choice.recompute_bytes for p in parts)
        return max(p.recompute_bytes + more for p, more in zip(parts, working, strict=True))
