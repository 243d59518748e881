"""The partition as a textbook would state it, for comparison with what the solver does.

One integer count per stage, kind of block and recompute choice, every stage deciding for itself;
no menus, no bounds, no first plan. Times and bytes are whole numbers of a small unit, so that
solvers of whole numbers can be asked as well. ::

    minimise   T
    over       z[s, k, c]  blocks of kind k on stage s that make choice c
               u[s, k, c] in {0, 1},  z <= blocks u
               R[s] >= recompute_bytes[c] u[s, k, c]
    where      the first block stands on the first stage, the last one on the last, the layers
               between them anywhere in order, at least one block on each stage
               states + in_flight[s] sum kept[c] z + R[s] <= capacity       for every stage
               T >= each of the four paths of 1F1B                          for every stage
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta

from ortools.math_opt.python import mathopt

from solver.costs.pipeline import PipelineCosts
from solver.recompute import frontier

BYTE_UNITS = 1_000_000
"""Units of memory that make the capacity."""

SECOND_UNITS = 4_000_000
"""Units of time that make the iteration, were there no bubble and no recompute."""

MOST_UNITS = 10_000_000
"""CP-SAT cuts the range of a variable off here, and then finds no solution beyond."""


@dataclass(frozen=True)
class Plain:
    """How a general solver fared: the best makespan, the proved bound, whether it is proved."""

    makespan: float | None
    bound: float
    proved: bool


def solve_plain(
    costs: PipelineCosts,
    stages: int,
    solver: mathopt.SolverType,
    time_limit_seconds: float,
) -> Plain:
    """Solve the partition under 1F1B with one of MathOpt's solvers, single-threaded."""
    program = _Program(costs, stages)
    threads = 1 if solver == mathopt.SolverType.CP_SAT else None  # HiGHS refuses the parameter
    result = mathopt.solve(
        program.model,
        solver,
        params=mathopt.SolveParameters(
            time_limit=timedelta(seconds=time_limit_seconds),
            relative_gap_tolerance=1e-4,
            threads=threads,
            random_seed=0,
        ),
    )
    found = result.objective_value() if result.has_primal_feasible_solution() else None
    return Plain(
        makespan=None if found is None else found * program.second + costs.fixed_seconds,
        bound=result.dual_bound() * program.second + costs.fixed_seconds,
        proved=result.termination.reason == mathopt.TerminationReason.OPTIMAL,
    )


class _Program:
    def __init__(self, costs: PipelineCosts, stages: int) -> None:
        self.costs, self.stages = costs, stages
        blocks = costs.blocks
        work = sum(blocks[k].forward_seconds + blocks[k].backward_seconds for k in costs.sequence)
        self.second = costs.micro_batches * work / stages / SECOND_UNITS
        self.byte = costs.capacity_bytes / BYTE_UNITS
        self.model = mathopt.Model(name="plain")
        self.frontiers = [frontier(block) for block in blocks]
        self.counts = [self._counts(stage) for stage in range(stages)]
        self._add_cover()
        for stage in range(stages):
            self._add_memory(stage)
        self._minimise_longest_path()

    def _counts(self, stage: int) -> list[list[mathopt.Variable]]:
        """z of a stage, by kind and choice."""
        first, last = self.costs.sequence[0], self.costs.sequence[-1]
        return [
            [
                self.model.add_integer_variable(lb=0, ub=self._most(stage, kind, first, last))
                for _ in choices.choices
            ]
            for kind, choices in enumerate(self.frontiers)
        ]

    def _most(self, stage: int, kind: int, first: int, last: int) -> int:
        if kind in (first, last) and first != last:
            here = stage == (0 if kind == first else self.stages - 1)
            return int(here)
        return self.costs.sequence.count(kind)

    def _add_cover(self) -> None:
        for kind in range(len(self.frontiers)):
            everywhere = [z for counts in self.counts for z in counts[kind]]
            total = mathopt.fast_sum(everywhere)
            self.model.add_linear_constraint(total == self.costs.sequence.count(kind))
        for counts in self.counts:
            self.model.add_linear_constraint(mathopt.fast_sum(itertools.chain(*counts)) >= 1)

    def _add_memory(self, stage: int) -> None:
        costs = self.costs
        in_flight = min(self.stages - stage, costs.micro_batches)
        buffer = self.model.add_integer_variable(lb=0, ub=BYTE_UNITS)
        terms = [1 * buffer]
        for kind, counts in enumerate(self.counts[stage]):
            states = costs.blocks[kind].states.total
            working = costs.blocks[kind].working_bytes
            for z, choice in zip(counts, self.frontiers[kind].choices, strict=True):
                used = self.model.add_binary_variable()
                self.model.add_linear_constraint(z <= z.upper_bound * used)
                rebuilt = self._bytes(choice.recompute_bytes + working)
                self.model.add_linear_constraint(buffer >= rebuilt * used)
                terms.append(self._bytes(states + in_flight * choice.kept_bytes) * z)
        reserved = self._bytes(costs.reserved_bytes)
        self.model.add_linear_constraint(mathopt.fast_sum(terms) + reserved <= BYTE_UNITS)

    def _minimise_longest_path(self) -> None:
        p, n = self.stages, self.costs.micro_batches
        forward = [self._stage_seconds(stage, backward=False) for stage in range(p)]
        backward = [self._stage_seconds(stage, backward=True) for stage in range(p)]
        both = [f + b for f, b in zip(forward, backward, strict=True)]
        longest = self.model.add_integer_variable(lb=0, ub=MOST_UNITS)
        for c in range(p):
            q = min(p - c, n)
            k = n - q + 1
            before, after = mathopt.fast_sum(both[:c]), mathopt.fast_sum(both[c + 1 :])
            there = 2 * round(c * self.costs.send_seconds / self.second)
            beyond = 2 * round((p - 1 - c) * self.costs.send_seconds / self.second)
            for path in (
                before + n * both[c] + there,
                before + after + k * forward[c] + n * backward[c] + there + beyond,
                before + after + n * forward[c] + k * backward[c] + there + beyond,
                before + 2 * after + k * both[c] + there + 2 * beyond,
            )[: 4 if n > q else 3]:
                self.model.add_linear_constraint(path <= longest)
        self.model.minimize(longest)

    def _stage_seconds(self, stage: int, *, backward: bool) -> mathopt.LinearSum:
        terms = []
        for kind, counts in enumerate(self.counts[stage]):
            block = self.costs.blocks[kind]
            for z, again in zip(counts, self.frontiers[kind].seconds.tolist(), strict=True):
                time = block.backward_seconds + again if backward else block.forward_seconds
                terms.append(round(time / self.second) * z)
        return mathopt.fast_sum(terms)

    def _bytes(self, size: float) -> int:
        return round(size / self.byte)
