"""The frontier's program, stated for OR-Tools and solved for one pair of byte limits.

Of one block, needed tensors N, all tensors A; K limits what is kept, M what is kept and recomputed
together, both with the block's input counted. ::

    minimise   sum over i in A of forward_seconds[i] rerun[i]
    over       keep[i] in {0, 1} for i in N,  rerun[i] in {0, 1} for i in A
    (needed)   keep[i] + rerun[i] >= 1                  for every i in N
    (inputs)   rerun[i] <= keep[j] + rerun[j]           for every input j of i other than x,
               keep[j] being 0 where j is not needed
    (kept)     input_bytes + sum of output_bytes[i] keep[i] <= K
    (held)     input_bytes + sum of output_bytes[i] (keep[i] + rerun[i]) <= M

Moving K and M over all values gives the whole frontier (the epsilon-constraint method, Haimes et
al. 1971). ``frontier.py`` finds it at once and without a solver, and is what plans are made of;
this file is its second opinion, one point at a time.
"""

from __future__ import annotations

import math

from ortools.math_opt.python import mathopt

from solver.costs.pipeline import Block
from solver.errors import SolverFailed
from solver.quiet import quiet
from solver.recompute.choice import Choice, choice_keeping, needed_tensors

ROUNDING = 1e-9
"""Relative excess over a limit that counts as rounding."""


def least_recompute(
    block: Block, kept_bytes: float = math.inf, held_bytes: float = math.inf
) -> Choice | None:
    """The choice of least recompute time within both limits, or None if there is none.

    Args:
        block: What is decided about.
        kept_bytes: K, bytes that may be kept per micro-batch.
        held_bytes: M, bytes that may be kept and recomputed together.

    Raises:
        SolverFailed: HiGHS gives neither a solution nor a proof that there is none.
    """
    program = _Program(block)
    program.limit(program.kept_bytes, kept_bytes)
    program.limit(program.kept_bytes + program.rerun_bytes, held_bytes)
    return program.solve()


class _Program:
    def __init__(self, block: Block) -> None:
        self.block = block
        self.model = mathopt.Model(name="recompute")
        needed = needed_tensors(block)
        self.keep = {
            op.name: self.model.add_binary_variable(name=f"keep[{op.name}]")
            for op in block.ops
            if op.name in needed
        }
        self.rerun = {
            op.name: self.model.add_binary_variable(name=f"rerun[{op.name}]") for op in block.ops
        }
        # Bytes in units of everything together, so that the solver's absolute tolerances are
        # relative to the block.
        self.unit = sum(op.output_bytes for op in block.ops) or 1.0
        self.kept_bytes = self._bytes(self.keep)
        self.rerun_bytes = self._bytes(self.rerun)
        self._add_needed()
        self._add_inputs()

    def _bytes(self, variables: dict[str, mathopt.Variable]) -> mathopt.LinearSum:
        return mathopt.fast_sum(
            op.output_bytes / self.unit * variables[op.name]
            for op in self.block.ops
            if op.name in variables
        )

    def _add_needed(self) -> None:
        for name, keep in self.keep.items():
            self.model.add_linear_constraint(keep + self.rerun[name] >= 1.0)

    def _add_inputs(self) -> None:
        for op in self.block.ops:
            for name in op.inputs:
                if name != "x":
                    there = [self.rerun[name], *filter(None, [self.keep.get(name)])]
                    self.model.add_linear_constraint(self.rerun[op.name] <= mathopt.fast_sum(there))

    def limit(self, total: mathopt.LinearBase, limit_bytes: float) -> None:
        """(kept) and (held): at most so many bytes beside the block's input."""
        if math.isfinite(limit_bytes):
            most = (limit_bytes * (1 + ROUNDING) - self.block.input_bytes) / self.unit
            self.model.add_linear_constraint(total <= most)

    def solve(self) -> Choice | None:
        """Minimise the time; one thread and a fixed seed, so that there is one answer."""
        self.model.minimize(
            mathopt.fast_sum(op.forward_seconds * self.rerun[op.name] for op in self.block.ops)
        )
        parameters = mathopt.SolveParameters(
            relative_gap_tolerance=0.0, absolute_gap_tolerance=0.0, random_seed=0
        )
        with quiet():
            result = mathopt.solve(self.model, mathopt.SolverType.HIGHS, params=parameters)
        reason = result.termination.reason
        if reason == mathopt.TerminationReason.INFEASIBLE:
            return None
        if reason != mathopt.TerminationReason.OPTIMAL:
            raise SolverFailed(f"HiGHS ended the recompute program with {reason.value}.")
        values = result.variable_values()
        return choice_keeping(
            self.block, [name for name, keep in self.keep.items() if values[keep] > 0.5]
        )
