"""The partition program, solved with OR-Tools.

Sets: stages s, candidate runs r = [a, b] of s (``candidates.py``). Coefficients: F[r], B[s, r] and
the once-per-iteration times. ::

    minimise   T
    over       y[s, r] in {0, 1},  T >= 0
    (cover)    sum over r of y[0, r] = 1 over runs starting at 0; for every stage s and cut c, the
               runs of s that stop at c equal the runs of s + 1 that start at c; the last stage
               stops at L                                              -> _add_cover
    (times)    f[s] = sum F y,  b[s] = sum B y,  and likewise the once-per-iteration times
                                                                       -> _add_stage_times
    (paths)    T >= length of every path in the pool, linear in f, b   -> _add_paths

The pool starts with the schedule's own-paths and grows by critical paths (``solve.py``). HiGHS
through MathOpt solves it; its ``threads`` must stay unset there.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from ortools.math_opt.python import mathopt

from solver.errors import SolverFailed
from solver.partition.candidates import Candidates, Cut
from solver.quiet import quiet
from solver.schedules import Path

Values = Mapping[mathopt.Variable, float]


@dataclass(frozen=True)
class ProgramResult:
    """Cuts per stage (None if the program has no solution better than asked) and the bound."""

    cuts: tuple[Cut, ...] | None
    bound: float


UNITS = 10_000.0
"""What a program counts the makespan as, about."""


def program_unit(makespan: float, bound: float) -> float:
    """Seconds to count as one, from the best known makespan or, without one, a bound of it."""
    known = makespan if math.isfinite(makespan) else bound
    return known / UNITS if known > 0 else 1.0


class PartitionModel:
    """Cover, times and paths; the parts that every form of the program shares.

    ``unit`` is how many seconds the program counts as one: a solver's tolerances are absolute, so
    that a makespan should be some thousands of units, whatever the pipeline.
    """

    def __init__(self, candidates: Candidates, unit: float) -> None:
        self.candidates = candidates
        self.unit = unit
        self.model = mathopt.Model(name="partition")
        self.makespan = self.model.add_variable(lb=0.0, name="T")
        self.runs: list[list[tuple[int, int, mathopt.Variable]]] = []
        for stage in range(candidates.stages):
            starts, stops = np.nonzero(candidates.alive[stage])
            self.runs.append(
                [
                    (start, stop, self.model.add_binary_variable())
                    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
                ]
            )
        self.depth = candidates.stages
        self._stage_variables: dict[tuple[str, int], mathopt.Variable] = {}
        self._extra_times: dict[tuple[str, int], list[mathopt.LinearTerm]] = defaultdict(list)

    def add_cover(self) -> None:
        """(cover): the stages' runs follow one another without gap."""
        first = [y for _, _, y in self.runs[0]]
        self.model.add_linear_constraint(mathopt.fast_sum(first) == 1.0)
        for here, following in itertools.pairwise(self.runs[: self.depth]):
            balance: dict[int, list[mathopt.LinearTerm | mathopt.Variable]] = defaultdict(list)
            for _, stop, y in here:
                balance[stop].append(y)
            for start, _, y in following:
                balance[start].append(-y)
            for terms in balance.values():
                self.model.add_linear_constraint(mathopt.fast_sum(terms) == 0.0)

    def add_to_stage_time(
        self, part: str, stage: int, seconds: float, times: mathopt.Variable
    ) -> None:
        """Seconds beside those of the run; to be told before the stage's time is asked for."""
        self._extra_times[part, stage].append(seconds / self.unit * times)

    def stage_time(self, part: str, stage: int) -> mathopt.Variable:
        """(times): a stage's time of one kind, as a variable made when first asked for."""
        key = (part, stage)
        if key not in self._stage_variables:
            variable = self.model.add_variable(lb=0.0, name=f"{part}[{stage}]")
            seconds = getattr(self.candidates, part)[stage % self.depth]
            terms = [
                float(seconds[start, stop]) / self.unit * y for start, stop, y in self.runs[stage]
            ]
            terms += self._extra_times[key]
            self.model.add_linear_constraint(mathopt.fast_sum(terms) == variable)
            self._stage_variables[key] = variable
        return self._stage_variables[key]

    def prefix_time(self, stage: int) -> mathopt.Variable:
        """Sum of forward + backward over the stages before ``stage``: keeps path rows short."""
        key = ("prefix", stage)
        if key not in self._stage_variables:
            variable = self.model.add_variable(lb=0.0, name=f"prefix[{stage}]")
            if stage == 0:
                self.model.add_linear_constraint(variable == 0.0)
            else:
                parts = [self.prefix_time(stage - 1)]
                parts += [self.stage_time(part, stage - 1) for part in ("forward", "backward")]
                self.model.add_linear_constraint(mathopt.fast_sum(parts) == variable)
            self._stage_variables[key] = variable
        return self._stage_variables[key]

    def add_paths(self, paths: list[Path], send_seconds: float) -> None:
        """(paths): the makespan is at least every path's length."""
        for path in paths:
            terms = self._path_terms(path)
            ends = [("before_first", path.first), ("after_last", path.last)]
            ends += [("step", stage) for stage in path.step]
            for part, stage in ends:
                if stage is not None and self._takes_time(part, stage):
                    terms.append(1.0 * self.stage_time(part, stage))
            self.model.add_linear_constraint(
                mathopt.fast_sum(terms) + path.sends * send_seconds / self.unit <= self.makespan
            )

    def _takes_time(self, part: str, stage: int) -> bool:
        return bool(getattr(self.candidates, part)[stage % self.depth].any())

    def _path_terms(self, path: Path) -> list[mathopt.LinearTerm]:
        """The path's length with runs of equal crossings taken from the prefix sums."""
        terms: list[mathopt.LinearTerm] = []
        stages = len(self.runs)
        stage = 0
        while stage < stages:
            crossings = path.forward[stage]
            stop = stage
            while stop < stages and path.forward[stop] == crossings == path.backward[stop]:
                stop += 1
            if stop - stage > 2:
                if crossings:
                    terms.append(crossings * self.prefix_time(stop))
                    terms.append(-crossings * self.prefix_time(stage))
                stage = stop
                continue
            if path.forward[stage]:
                terms.append(path.forward[stage] * self.stage_time("forward", stage))
            if path.backward[stage]:
                terms.append(path.backward[stage] * self.stage_time("backward", stage))
            stage += 1
        for part in ("weight", "recompute"):
            terms += [
                count * self.stage_time(part, stage)
                for stage, count in enumerate(getattr(path, part))
                if count and (self._takes_time(part, stage) or (part, stage) in self._extra_times)
            ]
        return terms

    def minimise(
        self,
        goal: mathopt.Variable,
        relative_gap: float,
        time_limit_seconds: float,
        most_nodes: int | None = None,
    ) -> tuple[Values | None, float]:
        """Minimise a variable; one thread and a fixed seed, so that a program has one answer.

        Args:
            goal: The variable.
            relative_gap: At which to stop.
            time_limit_seconds: When to stop at the latest.
            most_nodes: The same in nodes of the search tree, which no clock counts; ``nodes`` says
                afterwards how many there were.

        Returns:
            The values of the best solution, or None, and the proved bound of the variable, in the
            program's units (infinite if there is no solution at all, negatively so if time ran out
            before anything was known).
        """
        self.model.minimize(goal)
        parameters = mathopt.SolveParameters(
            relative_gap_tolerance=relative_gap,
            time_limit=timedelta(seconds=time_limit_seconds),
            node_limit=most_nodes,
            random_seed=0,
        )
        self.nodes = 0
        started = time.monotonic()
        try:
            with quiet():
                result = mathopt.solve(self.model, mathopt.SolverType.HIGHS, params=parameters)
        except Exception as failure:  # MathOpt wraps every solver error in odd types
            if time.monotonic() - started >= time_limit_seconds:
                return None, -float("inf")  # too late for what it could not do
            raise SolverFailed(f"HiGHS could not solve the partition program: {failure}") from None
        self.nodes = result.solve_stats.node_count
        reason = result.termination.reason
        if reason in (
            mathopt.TerminationReason.INFEASIBLE,
            mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED,
        ):
            return None, float("inf")
        bound = float(result.termination.objective_bounds.dual_bound)
        if result.has_primal_feasible_solution():
            return result.variable_values(), bound
        if reason == mathopt.TerminationReason.NO_SOLUTION_FOUND:
            return None, bound
        raise SolverFailed(f"HiGHS ended the partition program with {reason.value}.")

    def chosen_cuts(self, values: Values) -> tuple[Cut, ...]:
        """The run of every stage in a solution."""
        chosen = [max(runs, key=lambda run: values[run[2]]) for runs in self.runs]
        return tuple(
            self.candidates.cut(s % self.depth, a, b) for s, (a, b, _) in enumerate(chosen)
        )


class PartitionProgram(PartitionModel):
    """The whole program of one pipeline: choose an alive run per stage so that the longest path of
    the pool is shortest.

    Args:
        candidates: The runs in question and their times.
        send_seconds: Seconds of one send.
        unit: Seconds that the program counts as one.
    """

    def __init__(self, candidates: Candidates, send_seconds: float, unit: float) -> None:
        super().__init__(candidates, unit)
        self._send_seconds = send_seconds
        self.add_cover()

    def add(self, paths: list[Path]) -> None:
        """More paths for the pool."""
        self.add_paths(paths, self._send_seconds)

    def solve(
        self, relative_gap: float, time_limit_seconds: float, most_nodes: int | None = None
    ) -> ProgramResult:
        """The best cuts and the bound for the paths so far; arguments as ``minimise``.

        Raises:
            SolverFailed: If the solver gives neither a solution nor a proof that there is none.
        """
        values, bound = self.minimise(self.makespan, relative_gap, time_limit_seconds, most_nodes)
        cuts = None if values is None else self.chosen_cuts(values)
        return ProgramResult(cuts, bound * self.unit)
