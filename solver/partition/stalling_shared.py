"""Stages that share devices and may recompute ahead of the gradient, in stalls of the pipeline.

As ``shared.py``, where each stage also has a timing: on demand, or ahead, when all that it rebuilds
is held at once. Small cases are decided by the program with both (``stalling_program.py``). In
larger ones the best plan on demand comes first. Of that a stage that has room for what its mix
rebuilds does so ahead, which is never slower; then single stages change their timing, their device
taking its cheapest mix under it, while that helps. Bounds take a path to have recompute as often as
it has it ahead, and its bytes to be those on demand: both are the least there can be.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Cut
from solver.partition.free_menu import FreeMenu
from solver.partition.gathered_menu import GatheredMenu
from solver.partition.menu import Bools, Index, Mix
from solver.partition.outcome import EXACT, Dominated, Infeasible, Partition
from solver.partition.regime import Split
from solver.partition.shared import SMALL, SharedProblem
from solver.partition.shared_program import SharedModel
from solver.partition.split_descent import Plan
from solver.partition.split_rows import SplitRows
from solver.partition.stalling_device import StallingDevice
from solver.partition.stalling_program import StallingModel, TimedFrontiers
from solver.partition.timed_menu import TimedMenu
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule, schedule_graph, simulate
from solver.schedules.ahead import Ahead

SHARE = 0.5
"""Of the time limit, what the plan on demand gets."""

MOST_TURNS = 8
"""Times that all stages' timings are looked at."""

MOST_TIMED = 8
"""Devices that look for their cheapest mix under another timing, each time."""


class StallingProblem(SharedProblem):
    """One layout's partition over stages that share devices; arguments as ``SharedProblem``.

    ``menu`` has what blocks may choose among in both timings, ``schedule`` recompute ahead.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: TimedMenu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
        split: Split | None = None,
    ) -> None:
        on_demand, ahead = menu.on_demand, menu.ahead()
        assert isinstance(on_demand, FreeMenu)
        assert isinstance(ahead, FreeMenu | GatheredMenu)
        self._timed = TimedFrontiers(on_demand.frontiers, ahead.frontiers)
        self._devices: dict[tuple[int, tuple[bool, ...]], StallingDevice] = {}
        self._begun, self._gap = False, 0.0
        assert isinstance(schedule, Ahead)
        self._plain = SharedProblem(costs, on_demand, schedule.plain, admits, split)
        super().__init__(costs, on_demand, schedule, admits, split)

    # -- plans ------------------------------------------------------------------------------

    def _with_mixes(self, cuts: tuple[Cut, ...]) -> Plan | None:
        """The cheapest mixes on demand, ahead where there is room for what they rebuild."""
        plan = super()._with_mixes(cuts)
        return None if plan is None else self._with_room(plan)

    def _with_room(self, plan: Plan) -> Plan:
        """A plan on demand, ahead where there is room."""
        if not self._timed.alike:
            return plan
        cuts, mixes = plan[0], list(plan[1])
        for device in range(self._schedule.devices):
            stages, _, states = self._contents(cuts, device)
            self._ahead_with_room(device, stages, states, mixes)
        return cuts, tuple(mixes)

    def _ahead_with_room(
        self, device: int, stages: list[int], states: float, mixes: list[Mix]
    ) -> None:
        """Let the stages of a device that have room recompute ahead, those with most of it first.

        With no more bytes this is never slower: paths have what runs ahead no more often.
        """
        parts = [list(mixes[stage].parts) for stage in stages]
        ahead = [False] * len(stages)
        for place in sorted(range(len(stages)), key=lambda at: -mixes[stages[at]].seconds):
            if mixes[stages[place]].seconds > 0:
                ahead[place] = True
                menu = self._device(device, tuple(ahead))
                ahead[place] = menu.fits(parts, states)
        found = self._device(device, tuple(ahead)).mixes_of(parts)
        for stage, mix in zip(stages, found, strict=True):
            mixes[stage] = mix

    def unproved(self) -> Partition | None:
        """The plan that moves lead to on demand, its stages timed anew; None if none fits."""
        found = self._plain.unproved()
        if found is not None:
            self._begin_with(found)
            self._begun = True
        return super().unproved() if self._best[1] is not None else None

    def solve(
        self,
        *,
        relative_gap: float = 1e-4,
        time_limit_seconds: float = 30.0,
        cutoff: float = math.inf,
    ) -> Partition | Infeasible | Dominated:
        """The fastest partition; arguments and answers as ``PartitionProblem.solve``."""
        self._gap = relative_gap
        return super().solve(
            relative_gap=relative_gap, time_limit_seconds=time_limit_seconds, cutoff=cutoff
        )

    def _start(self, deadline: float) -> None:
        """The best plan on demand, whose problem goes through all splits itself."""
        self._improve(deadline)

    def _improve(self, deadline: float) -> None:
        """The best plan on demand; then stages are timed anew while that helps.

        So no plan is slower than the best one on demand.
        """
        if self._is_small():
            super()._improve(deadline)
            return
        if not self._begun:  # or cut short before
            left = max(deadline - time.monotonic(), 0.1)
            self._plain.only_quickly = self.only_quickly
            found = self._plain.solve(relative_gap=self._gap, time_limit_seconds=SHARE * left)
            if isinstance(found, Partition):
                self._begin_with(found)
            self._begun = time.monotonic() < deadline - (1 - SHARE) * left
        self._tried_first = self._best[1] is not None
        super()._improve(deadline)
        for _ in range(MOST_TURNS):
            if time.monotonic() > deadline or self.only_quickly:
                break
            made = [] if self._best[1] is None else self._timed_anew()
            if not made or not self._keep_best(made):
                break

    def _descend(self, deadline: float) -> None:
        """Nothing: steps lead to plans on demand, and the best of those is known."""

    def _begin_with(self, found: Partition) -> None:
        """Take a plan on demand, ahead where there is room."""
        plan = found.cuts, found.mixes
        self._keep_best([plan, self._with_room(plan)])

    def _timed_anew(self) -> list[Plan]:
        """The best plan with the timing of one stage changed, or of all stages of a device.

        Only such as could help: where the least that the device recomputes, so timed, would.
        """
        assert self._best[1] is not None
        cuts, mixes = self._best[1]
        options: list[tuple[int, tuple[bool, ...]]] = []
        hopes: list[Plan] = []
        for device in range(self._schedule.devices):
            stages, counts, states = self._contents(cuts, device)
            least = self._device_menus()[device].mixes(counts, states)
            for ahead in _neighbours(tuple(mixes[stage].ahead for stage in stages)):
                if least is not None:
                    timed = [replace(one, ahead=at) for one, at in zip(least, ahead, strict=True)]
                    options.append((device, ahead))
                    hopes.append(self._with_device((cuts, mixes), device, timed))
        if not hopes:
            return []
        spans = simulate(schedule_graph(self._schedule), self._stage_times(hopes)).makespan
        hopeful = np.flatnonzero(spans < self._best[0] * (1 - EXACT))
        made: list[Plan] = []
        for at in hopeful[np.argsort(spans[hopeful], kind="stable")][:MOST_TIMED].tolist():
            device, ahead = options[at]
            _, counts, states = self._contents(cuts, device)
            found = self._device(device, ahead).mixes(counts, states)
            if found is not None:
                made.append(self._with_device((cuts, mixes), device, found))
        return made

    def _with_device(self, plan: Plan, device: int, mixes: list[Mix]) -> Plan:
        """A plan with other mixes on one device."""
        changed = dict(zip(self._schedule.stages_of(device), mixes, strict=True))
        return plan[0], tuple(changed.get(at, mix) for at, mix in enumerate(plan[1]))

    def _contents(self, cuts: tuple[Cut, ...], device: int) -> tuple[list[int], Index, float]:
        """The stages of a device, their blocks by kind, and the bytes of their states."""
        stages = self._schedule.stages_of(device)
        runs = [int(self._signatures.of_run[cuts[stage]]) for stage in stages]
        return stages, self._signatures.counts[runs], float(self._totals.states[runs].sum())

    def _device(self, device: int, ahead: tuple[bool, ...]) -> StallingDevice:
        if (device, ahead) not in self._devices:
            made = StallingDevice(self._costs, self._timed, self._schedule, device, ahead)
            self._devices[device, ahead] = made
        return self._devices[device, ahead]

    def _level(self, rows: SplitRows, plan: Plan, hulls: list[list[int]]) -> None:
        """Parts of blocks made whole are choices on demand; then ahead where there is room."""
        self._keep_best([plan])
        if not self._timed.alike:
            return
        before = self._best
        super()._level(rows, plan, hulls)
        if self._best is not before and self._best[1] is not None:
            self._keep_best([self._with_room(self._best[1])])

    # -- the program ------------------------------------------------------------------------

    def _is_small(self) -> bool:
        """Whether the program can decide all runs, choices and timings, and knows all choices.

        Choices that others replace on demand may be best ahead where they lengthen collectives
        less.
        """
        fronts = zip(self._timed.on_demand, self._timed.ahead, strict=True)
        choices = max(len(one.choices) + len(other.choices) for one, other in fronts)
        hides = self._costs.overlapping.charge > 0 and not self._timed.alike
        return not hides and int(self._everything.alive.sum()) * choices <= SMALL

    def _model(self, frontiers: tuple[Frontier, ...], unit: float) -> SharedModel:
        if frontiers is not self._menu.frontiers:
            return super()._model(frontiers, unit)
        model = StallingModel(
            self._everything,
            self._signatures.counts,
            self._totals.states,
            self._costs,
            self._timed,
            self._schedule,
            unit,
        )
        model.add_cover()
        return model


def _neighbours(now: tuple[bool, ...]) -> list[tuple[bool, ...]]:
    """Timings of a device's stages with one of them changed, with all ahead, and with none."""
    single = [
        tuple(one != (at == place) for place, one in enumerate(now)) for at in range(len(now))
    ]
    alike = [(True,) * len(now), (False,) * len(now)]
    return [ahead for ahead in dict.fromkeys([*single, *alike]) if ahead != now]
