"""The partition of a layout whose stages share devices: interleaved pipelines.

The same story as ``solve.py`` - bounds, a first plan, a program, critical-path rows - but what a
stage may keep depends on the other stages of its device, so the program decides the choices too
(``shared_program.py``). Small cases are solved over all cuts and choices, to the optimum. In larger
ones blocks are moved between stages while that helps, each device taking its cheapest mix
(``device_menu.py``); the proof is then the bound below, and the answer says how far it is.

Bounds. Device d runs all its work in one chain, after the first forward has come to its first stage
and before the last backward has gone back from it::

    T >= before(d) + n sum over its stages of (F + B),   before(d) = sum over s < d of F + B

and so, summed over the p devices, p T is at least n times the work of all blocks. Recompute adds
to that work what the memory of all devices together cannot keep (``least_recompute``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cached_property

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Bools, Index
from solver.partition.device_chains import mean_chain
from solver.partition.few_splits import FewSplits, splits_count
from solver.partition.fitting_splits import FittingSplits
from solver.partition.footprints import Footprints, free_footprints
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Floats, Mix
from solver.partition.outcome import (
    EXACT,
    MOST_ROUNDS,
    NOT_ADMITTED,
    Dominated,
    Infeasible,
    Partition,
)
from solver.partition.priced_paths import PricedPath
from solver.partition.program import program_unit
from solver.partition.regime import Split
from solver.partition.relaxed_splits import RelaxedSplits
from solver.partition.rounded_mixes import rounded_mixes
from solver.partition.shared_memory import least_recompute
from solver.partition.shared_plans import SharedPlans
from solver.partition.shared_program import SharedModel
from solver.partition.split_bounds import SplitBounds
from solver.partition.split_descent import Plan
from solver.partition.split_rows import QUICK, THOROUGH, SplitRows
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule, critical_path, schedule_graph, simulate

SMALL = 2_000
"""Runs times choices up to which everything is decided by the program."""

MOST_SPLITS = 50_000
"""Splits up to which every one is bounded."""

TOGETHER = 4
"""Splits that are simulated at once."""

MOST_SPOTTED = 24
"""Splits of every sort of which the fastest are looked at first."""

MOST_TURNS = 6
"""Turns of simulating splits and adding their critical paths."""

MOST_RELAXED = 96
"""Stages up to which the relaxation is worth what it takes."""

MOST_SOLVES = 4
"""Times that a large case is solved, each going on where the one before stopped."""

LEVELLED = 3
"""Splits of the relaxation whose mixes are levelled."""


class SharedProblem(SharedPlans):
    """One layout's partition over stages that share devices.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among.
        schedule: A schedule with several stages per device.
        admits: Which counts of blocks a stage may hold, shape (runs, kinds); None: any.
        split: The only split of one copy of the model that there is; None: any.

    ``only_quickly``: for a large case a good plan is enough, and a bound that is quickly found.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        menu: FreeMenu,
        schedule: Schedule,
        admits: Callable[[Index], Bools] | None = None,
        split: Split | None = None,
    ) -> None:
        super().__init__(costs, menu, schedule, admits, split)
        self._relaxed: tuple[RelaxedSplits, SplitRows] | None = None
        self._solved, self._exhausted = 0, False
        self._tried_first = False
        recompute = self._least_recompute()
        self.bound = mean_chain(costs, schedule, recompute) + costs.fixed_seconds
        if split is not None:
            self.bound = max(self.bound, self._bound_of(split) + costs.fixed_seconds)

    def solve(
        self,
        *,
        relative_gap: float = 1e-4,
        time_limit_seconds: float = 30.0,
        cutoff: float = math.inf,
    ) -> Partition | Infeasible | Dominated:
        """The fastest partition; arguments and answers as ``PartitionProblem.solve``.

        Solved again a large case goes on where it stopped, if it ``may_gain``.
        """
        deadline = time.monotonic() + time_limit_seconds
        self._solved += 1
        if not math.isfinite(self.bound):
            return self._shortfall(deadline)
        if self.bound >= cutoff:
            return Dominated(self.bound)
        root = self.bound - self._costs.fixed_seconds
        self._start(deadline)
        if self._best[1] is None and (missing := self._find_fitting(deadline)) is not None:
            return missing
        proved = root
        if self._is_small():
            proved = self._add_rows(deadline, cutoff)
            self._engine = "highs" if self._rounds else "moves"
        else:
            if self._goes_through_all():
                self._engine = "splits"
                proved = self._try_all(deadline, relative_gap)
            if self._best[1] is not None and self._schedule.stages <= MOST_RELAXED:
                proved = max(proved, self._relax(deadline, relative_gap, cutoff))
        makespan, plan = self._best
        lower = max(root, min(proved, makespan))
        lower += self._costs.fixed_seconds
        if plan is None:
            fits_none = math.isinf(lower) and math.isinf(cutoff)
            return self._shortfall(deadline) if fits_none else Dominated(min(lower, cutoff))
        if lower >= cutoff:
            return Dominated(lower)
        return self._partition(makespan, plan, lower)

    @property
    def may_gain(self) -> bool:
        """Whether being solved once more may prove more, or find a better plan."""
        begun = self._relaxed is not None and not self.only_quickly
        return begun and not self._exhausted and self._solved < MOST_SOLVES

    def unproved(self) -> Partition | None:
        """The plan that moves lead to, nothing but ``bound`` proved of it; None if none fits."""
        self._improve(math.inf)
        makespan, plan = self._best
        return None if plan is None else self._partition(makespan, plan, self.bound)

    def first_makespan(self) -> float | None:
        """The iteration time of the best of the first plans; None if none of them fits."""
        self._quick = True
        self._try(self._first_cuts())
        self._quick = False
        makespan, plan = self._best
        return None if plan is None else makespan + self._costs.fixed_seconds

    # -- bounds -----------------------------------------------------------------------------

    def _least_recompute(self) -> float:
        """Recompute seconds per micro-batch that all devices' memory together asks for."""
        return least_recompute(self._costs, self._menu.frontiers, self._schedule)

    def _bound_of(self, split: Split) -> float:
        """Of every plan of this split; infinite if it cannot fit."""
        edges = np.array([[0, *(stop for _, stop in split)]])
        return float(self._split_bounds.bounds(edges)[0])

    # -- plans ------------------------------------------------------------------------------

    def _splits_are_few(self) -> bool:
        """Whether every split can be bounded."""
        if self._split is not None:
            return False
        few = splits_count(len(self._costs.sequence), self._schedule.depth) <= MOST_SPLITS
        return few and bool(self._admitted.all())

    def _try_all(self, deadline: float, relative_gap: float) -> float:
        """Row by row over all splits: simulate those of least bound, add their critical paths.

        The least bound of any split at the end is a bound of every plan.
        """
        schedule = self._schedule
        splits = FewSplits(self._costs.sequence, schedule.depth)
        bounds = np.max([splits.lengths(path) for path in self._priced()], axis=0)
        untried = np.ones(len(splits), dtype=bool)
        for turn in range(MOST_TURNS):
            reach = self._best[0] * (1 - relative_gap)
            open_bounds = np.where(untried, bounds, math.inf)
            some = np.argpartition(open_bounds, min(TOGETHER, len(splits)) - 1)[:TOGETHER]
            if not turn:
                some = np.union1d(some, self._spotted(splits, open_bounds, reach))
            some = some[open_bounds[some] < reach]
            if not len(some) or time.monotonic() > deadline:
                break
            untried[some] = False
            for path in self._simulated([splits.cuts(int(at)) for at in some]):
                np.maximum(bounds, splits.lengths(path), out=bounds)
        if self._best[1] is not None:  # its mixes were quickly found
            self._try([self._best[1][0][: schedule.depth]])
        return float(bounds.min())

    def _spotted(self, splits: FewSplits, bounds: Floats, reach: float) -> Index:
        """Of splits of every sort those that quickly found mixes make fastest.

        Their longer stages are the first, the last, and the middle ones of chunks: how long a split
        takes is mostly a matter of the chunks that hold them.
        """
        schedule = self._schedule
        middles = np.arange(schedule.devices // 2, schedule.depth, schedule.devices)
        spots = np.array([0, *middles.tolist(), schedule.depth - 1])
        found = splits.at_spots(spots, MOST_SPOTTED)
        found = found[bounds[found] < reach]
        copies = schedule.stages // schedule.depth
        self._quick = True
        made = [self._with_mixes(splits.cuts(int(at)) * copies) for at in found]
        self._quick = False
        some = [at for at, plan in enumerate(made) if plan is not None]
        if len(some) <= TOGETHER:
            return found[some]
        times = self._stage_times([plan for plan in made if plan is not None])
        makespan = simulate(schedule_graph(schedule), times).makespan
        return found[some][np.argsort(makespan, kind="stable")[:TOGETHER]]

    def _priced(self) -> list[PricedPath]:
        """The rows so far, at the prices that bound the best plan best."""
        if self._best[1] is None:
            return [self._prices.free(path) for path in self._rows]
        counts = self._counts_of(self._best[1][0])
        return [self._prices.priced(p, self._prices.best(p, counts)) for p in self._rows]

    @cached_property
    def _split_bounds(self) -> SplitBounds:
        return SplitBounds(
            self._costs, self._menu.frontiers, self._schedule, self._signatures, self._totals
        )

    def _start(self, deadline: float) -> None:
        """Some plan where all splits are gone through then; else the best that steps lead to."""
        if self._goes_through_all():
            self._begin(quick=True)
        else:
            self._improve(deadline)

    def _goes_through_all(self) -> bool:
        return not self.only_quickly and not self._is_small() and self._splits_are_few()

    def _improve(self, deadline: float) -> None:
        """Even and level cuts first; then steps to better ones.

        Where only a good plan is wanted, the first mixes are quickly found ones.
        """
        self._begin(quick=self.only_quickly)
        if self._split is None and self._best[1] is not None:
            self._descend(deadline)

    def _begin(self, *, quick: bool) -> None:
        """Try the first cuts, once."""
        if self._tried_first:
            return
        self._tried_first = True
        self._quick = quick
        self._try(self._first_cuts())
        self._quick = False
        if self._best[1] is None:  # quick mixes may miss the only ones that fit
            self._try(self._first_cuts())

    def _relax(self, deadline: float, relative_gap: float, cutoff: float) -> float:
        """A bound of every plan from the relaxation; its cuts, made whole, are tried.

        Asked again it goes on where it stopped.
        """
        makespan, plan = self._best
        if plan is None or makespan <= 0:
            return 0.0
        if self._relaxed is None:
            self._relaxed = self._relaxation(plan, deadline)
        relaxed, rows = self._relaxed
        rows.until(deadline)
        self._level(rows, self._plan, relaxed.hulls)
        makespan, plan = self._best[0], self._plan
        target = min(makespan * (1 - relative_gap), cutoff - self._costs.fixed_seconds)
        solves = QUICK if self.only_quickly else THOROUGH
        found = rows.bound(self._stage_times([plan]), target, solves)
        self._exhausted = found.done
        if found.bound < target:
            self._quick = True  # levelling makes mixes of its own
            copies = self._schedule.stages // self._schedule.depth
            for cuts in found.cuts[:LEVELLED]:
                for made in self._complete(cuts * copies):
                    self._level(rows, made, relaxed.hulls)
            self._quick = False
        return found.bound

    def _relaxation(self, plan: Plan, deadline: float) -> tuple[RelaxedSplits, SplitRows]:
        frontiers, about = self._relaxed_frontiers(), self._best[0]
        relaxed = RelaxedSplits(self._costs, frontiers, self._schedule, about)
        if self._split is not None:
            relaxed.only(self._counts_of(self._split))
        rows = SplitRows(relaxed, self._schedule, self._rows, deadline)
        rows.begin(self._stage_times([plan]))
        return relaxed, rows

    def _level(self, rows: SplitRows, plan: Plan, hulls: list[list[int]]) -> None:
        """Try a plan, and its cuts with what the relaxation would keep of them, made whole."""
        cuts, mixes = plan
        self._keep_best([plan])
        fronts, blocks = self._menu.frontiers, self._costs.blocks
        buffers = [
            max(float(fronts[k].rebuilt[c]) + blocks[k].working_bytes for k, c, _ in mix.parts)
            for mix in mixes
        ]
        counts = self._counts_of(cuts[: self._schedule.depth])
        found = rows.level(counts, buffers, self._stage_times([plan]))
        if found is None:
            return
        levelled: dict[int, Mix] = {}
        for device, menu in enumerate(self._device_menus()):
            stages = self._schedule.stages_of(device)
            runs = [int(self._signatures.of_run[cuts[stage]]) for stage in stages]
            states = float(self._totals.states[runs].sum())
            made = rounded_mixes(menu, hulls, [found.shares[stage] for stage in stages], states)
            if made is None:
                made = [mixes[stage] for stage in stages]
            levelled.update(zip(stages, made, strict=True))
        self._keep_best([(cuts, tuple(levelled[stage] for stage in range(len(cuts))))])

    def _relaxed_frontiers(self) -> tuple[Frontier, ...]:
        """What blocks may choose among, or less."""
        return self._menu.frontiers

    # -- the program ------------------------------------------------------------------------

    def _is_small(self) -> bool:
        """Whether the program can decide all runs and all choices."""
        choices = max(len(front.choices) for front in self._menu.frontiers)
        return int(self._everything.alive.sum()) * choices <= SMALL

    def _add_rows(self, deadline: float, cutoff: float) -> float:
        """Solve, simulate, add the critical path, again; the best bound proved."""
        limit = cutoff - self._costs.fixed_seconds
        proved = 0.0
        for _ in range(MOST_ROUNDS):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._rounds += 1
            model = self._model(self._menu.frontiers, program_unit(self._best[0], self.bound))
            model.add_paths(self._rows, self._costs.send_seconds)
            result = model.solve_shared(EXACT, left, min(self._best[0], limit))
            proved = max(proved, result.bound)
            if result.plan is None:
                break
            simulation = simulate(schedule_graph(self._schedule), self._stage_times([result.plan]))
            makespan = float(simulation.makespan[0])
            if makespan < self._best[0] * (1 - EXACT):
                self._best = (makespan, result.plan)
            path = critical_path(simulation)
            if proved >= self._best[0] * (1 - EXACT) or path in self._rows:
                break
            self._rows.append(path)
        return proved

    def _model(self, frontiers: tuple[Frontier, ...], unit: float) -> SharedModel:
        model = SharedModel(
            self._everything,
            self._signatures.counts,
            self._totals.states,
            self._costs,
            frontiers,
            self._schedule,
            unit,
        )
        model.add_cover()
        return model

    # -- what is missing --------------------------------------------------------------------

    def _find_fitting(self, deadline: float) -> Infeasible | None:
        """Begin with a split that fits, where the first ones do not; or prove that none does."""
        if not self._everything.connected(self._everything.alive).any():
            return NOT_ADMITTED
        found = self._fitting_splits().least_missing(self._first_cuts(), deadline)
        if found.nothing_fits:
            return Infeasible(found.device, found.missing, found.needed)
        if found.missing <= 0:
            self._try([found.cuts])
            self._improve(deadline)
        return None

    def _shortfall(self, deadline: float) -> Infeasible:
        """What a plan of little memory misses, where it is known that none fits."""
        if not self._everything.connected(self._everything.alive).any():
            return NOT_ADMITTED
        splits = self._fitting_splits()
        found = splits.least_missing(self._first_cuts(), deadline, quick=True)
        return Infeasible(found.device, found.missing, found.needed)

    def _fitting_splits(self) -> FittingSplits:
        capacity, reserved = self._costs.capacity_bytes, self._costs.reserved_bytes
        footprints = self._footprints()
        return FittingSplits(self._everything, footprints, self._schedule, capacity, reserved)

    def _footprints(self) -> Footprints:
        """In how little memory every run can be held."""
        return free_footprints(self._costs, self._menu.frontiers, self._signatures.counts)
