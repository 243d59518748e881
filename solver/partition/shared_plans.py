"""Plans of a layout whose stages share devices: made of splits, simulated, the best of them kept.

What a stage may keep depends on the other stages of its device, so a split becomes a plan when each
device takes the cheapest mix of all its chunks (``device_menu.py``). Of plans that are simulated
the fastest is kept, and critical paths are collected as rows of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Bools, Candidates, Cut, Index, least_bottleneck_plan
from solver.partition.device_chains import device_chains
from solver.partition.device_menu import DeviceMenu
from solver.partition.device_options import DeviceOptions
from solver.partition.even import even_split, level_blocks
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Mix
from solver.partition.outcome import EXACT, Partition
from solver.partition.priced_paths import PricedPath, Prices
from solver.partition.regime import Split
from solver.partition.runs import run_totals, signatures
from solver.partition.split_descent import QUICK as SOME_STEPS
from solver.partition.split_descent import THOROUGH as ALL_STEPS
from solver.partition.split_descent import Plan, SplitDescent
from solver.schedules import Schedule, StageTimes, critical_path, schedule_graph, simulate


class SharedPlans:
    """The plans that a search for the fastest partition makes, and the best so far.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among.
        schedule: A schedule with several stages per device.
        admits: Which counts of blocks a stage may hold, shape (runs, kinds); None: any.
        split: The only split of one copy of the model that there is; None: any.

    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: FreeMenu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
        split: Split | None = None,
    ) -> None:
        self._costs, self._menu, self._schedule = costs, menu, schedule
        self._signatures = signatures(costs.sequence, len(costs.blocks))
        self._totals = run_totals(
            costs, self._signatures.counts, splits_backward=schedule.splits_backward
        )
        counts = self._signatures.counts
        self._admitted = np.ones(len(counts), dtype=bool) if admits is None else admits(counts)
        everything = Candidates.all(self._signatures, self._totals, schedule.depth)
        alive = everything.alive & self._admitted[everything.runs]
        self._split = split
        if split is not None:
            alive &= _only(everything, split)
        self._everything = replace(everything, alive=alive)
        self._best: tuple[float, Plan | None] = (math.inf, None)
        self._rows = device_chains(schedule)
        self._rounds = 0
        self._engine = "moves"
        self._menus: list[DeviceMenu] | None = None
        self.only_quickly = False
        self._quick = False

    @property
    def schedule(self) -> Schedule:
        """The schedule whose stages are filled."""
        return self._schedule

    def _first_cuts(self) -> list[tuple[Cut, ...]]:
        """Cuts of even layers, of level loads, and of even blocks; the only split where one is."""
        if self._split is not None:
            return [self._split]
        loads = np.where(
            self._everything.alive, self._everything.forward + self._everything.backward, np.inf
        )
        level = least_bottleneck_plan(self._everything, loads, loads)
        even = even_split(self._costs, self._schedule.depth)
        equal = level_blocks(len(self._costs.sequence), self._schedule.depth)
        return sorted(cuts for cuts in {level, even, equal} if cuts)

    def _try(self, plans: list[tuple[Cut, ...]]) -> bool:
        """Simulate plans with their devices' cheapest mixes; whether the best improved.

        A plan is the cuts of one copy of the model.
        """
        copies = self._schedule.stages // self._schedule.depth
        complete = [plan for cuts in plans for plan in self._complete(cuts * copies)]
        return bool(complete) and self._keep_best(complete)

    def _complete(self, cuts: tuple[Cut, ...]) -> list[Plan]:
        """The plans of a split that are worth a simulation."""
        plan = self._with_mixes(cuts)
        return [] if plan is None else [plan]

    def _with_mixes(self, cuts: tuple[Cut, ...]) -> Plan | None:
        mixes: list[Mix | None] = [None] * len(cuts)
        for device, menu in enumerate(self._device_menus()):
            stages = self._schedule.stages_of(device)
            runs = [int(self._signatures.of_run[cuts[stage]]) for stage in stages]
            if min(runs) < 0 or not self._admitted[runs].all():
                return None
            states = float(self._totals.states[runs].sum())
            mixes_of = menu.quick_mixes if self._quick else menu.mixes
            found = mixes_of(self._signatures.counts[runs], states)
            if found is None:
                return None
            for stage, mix in zip(stages, found, strict=True):
                mixes[stage] = mix
        return cuts, tuple(mix for mix in mixes if mix is not None)

    def _device_menus(self) -> list[DeviceMenu]:
        if self._menus is None:
            self._menus = [
                DeviceMenu(self._costs, self._menu.frontiers, self._schedule, device)
                for device in range(self._schedule.devices)
            ]
        return self._menus

    def _keep_best(self, plans: list[Plan]) -> bool:
        """Simulate plans; whether the best improved."""
        makespans = simulate(schedule_graph(self._schedule), self._stage_times(plans)).makespan
        at = int(np.argmin(makespans))
        if makespans[at] < self._best[0] * (1 - EXACT):
            self._best = (float(makespans[at]), plans[at])
            return True
        return False

    def _simulated(self, splits: list[tuple[Cut, ...]]) -> list[PricedPath]:
        """Simulate splits, keep the best plan, and give their critical paths that are new."""
        schedule = self._schedule
        copies = schedule.stages // schedule.depth
        self._quick = True
        made = [self._with_mixes(cuts * copies) for cuts in splits]
        self._quick = False
        plans = [plan for plan in made if plan is not None]
        if not plans:
            return []
        self._rounds += 1
        simulation = simulate(schedule_graph(schedule), self._stage_times(plans))
        at = int(np.argmin(simulation.makespan))
        if simulation.makespan[at] < self._best[0] * (1 - EXACT):
            self._best = (float(simulation.makespan[at]), plans[at])
        found = []
        for candidate, (cuts, _) in enumerate(plans):
            path = critical_path(simulation, candidate)
            if path not in self._rows:
                self._rows.append(path)
                price = self._prices.best(path, self._counts_of(cuts))
                found.append(self._prices.priced(path, price))
        return found

    def _descend(self, deadline: float) -> None:
        """Steps from the best plan to better ones, as far as they lead."""
        makespan, plan = self._best
        assert plan is not None, "there is a plan to begin with"
        effort = SOME_STEPS if self.only_quickly else ALL_STEPS
        descent = SplitDescent(
            self._costs,
            self._schedule,
            self._signatures,
            self._totals,
            self._options,
            self._rows,
            effort,
        )
        found, better = descent.improve(plan, makespan, deadline)
        if found < makespan * (1 - EXACT):
            self._best = found, better
            if not self.only_quickly:
                self._try([better[0][: self._schedule.depth]])

    @cached_property
    def _options(self) -> DeviceOptions:
        return DeviceOptions(self._schedule, self._ways)

    def _ways(self, device: int, runs: Index) -> list[tuple[Mix, ...]]:
        """Mixes of a device's chunks among which steps choose; none if they do not fit."""
        if not self._admitted[runs].all():
            return []
        states = float(self._totals.states[runs].sum())
        menu = self._device_menus()[device]
        return menu.emphasised_mixes(self._signatures.counts[runs], states)

    def _counts_of(self, cuts: tuple[Cut, ...]) -> Index:
        return self._signatures.counts[[self._signatures.of_run[cut] for cut in cuts]]

    @cached_property
    def _prices(self) -> Prices:
        return Prices(self._costs, self._menu.frontiers, self._schedule)

    def _stage_times(self, plans: list[Plan]) -> StageTimes:
        """Times of complete plans, shape (plans, stages)."""
        chosen = np.array([[self._signatures.of_run[cut] for cut in cuts] for cuts, _ in plans])
        seconds = np.array([[mix.seconds for mix in mixes] for _, mixes in plans])
        charged = np.array([[mix.charged for mix in mixes] for _, mixes in plans])
        ahead = np.array([[mix.ahead for mix in mixes] for _, mixes in plans])
        totals = self._totals
        return StageTimes(
            forward=totals.forward[chosen],
            backward=totals.backward[chosen] + np.where(ahead, charged, seconds),
            send=self._costs.send_seconds,
            before_first=totals.before_first[chosen],
            after_last=totals.after_last[chosen],
            step=totals.step[chosen],
            weight=totals.weight[chosen],
            recompute=np.where(ahead, seconds - charged, 0.0) if ahead.any() else None,
        )

    def _partition(self, makespan: float, plan: Plan, lower: float) -> Partition:
        return Partition(
            cuts=plan[0],
            mixes=plan[1],
            makespan=makespan + self._costs.fixed_seconds,
            lower_bound=min(lower, makespan + self._costs.fixed_seconds),
            rows=len(self._rows),
            rounds=self._rounds,
            engine=self._engine,
            ahead=tuple(mix.ahead for mix in plan[1]) if any(m.ahead for m in plan[1]) else (),
        )

    @property
    def _plan(self) -> Plan:
        """The best plan."""
        plan = self._best[1]
        assert plan is not None, "there is a plan"
        return plan


def _only(everything: Candidates, split: Split) -> Bools:
    """The runs of one split, each on its stage."""
    found = np.zeros_like(everything.alive)
    for stage, cut in enumerate(split):
        found[(stage, *everything.index(stage, cut))] = True
    return found
