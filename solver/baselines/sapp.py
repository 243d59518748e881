"""SAPP's integer program: how many layers of each recompute type a chunk of a stage holds.

MindSpore's ``sapp_ppb`` (MindFormers ``toolkit/pipeline_balance``, now hyper-parallel) counts the
layers of every recompute type on every chunk of every stage, the head glued to the first chunk and
the tail to the last, at least one layer on every other one. It solves, there with PuLP and CBC::

    minimise   sum over stages of (F + B)  +  (n v - 1) M
    over       x[s, c] >= 0 integer, layers of recompute type c on stage s
    where      sum over s, c of x[s, c] is the number of layers
               M >= F(i) + B(j)                       for chunks i, j of one device
               states + alive kept x <= capacity      at every moment of every device

F and B are linear in x. Its further terms, differences between the bubbles of neighbours, are left
out. The objective takes the slowest pair of chunks for what every device does all the time, so that
its optimum need not be the fastest plan; nothing is simulated.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta

from ortools.math_opt.python import mathopt

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Cut
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule
from solver.schedules.moments import moments

SCALE = 1e5
"""What the program counts the capacity, and one pass through all blocks, as."""


@dataclass(frozen=True)
class Balanced:
    """A plan of the program: the cuts, (kind, choice, count) per stage, whether it is proved."""

    cuts: tuple[Cut, ...]
    parts: tuple[tuple[tuple[int, int, int], ...], ...]
    proved: bool


def sapp(
    costs: PipelineCosts,
    frontiers: tuple[Frontier, ...],
    schedule: Schedule,
    time_limit_seconds: float = 90.0,
    solver: mathopt.SolverType = mathopt.SolverType.HIGHS,
) -> Balanced | None:
    """The program's plan; None if it finds none in time.

    Args:
        costs: A head, layers of one kind, a tail.
        frontiers: The recompute types of each kind.
        schedule: 1F1B, interleaved or not.
        time_limit_seconds: SAPP's own is 90.
        solver: Which of MathOpt's solvers.

    Raises:
        ValueError: The model has several kinds of layer.
    """
    head, *body, tail = costs.sequence
    if len(set(body)) != 1 or head in body or tail in body:
        raise ValueError("SAPP balances a head, layers of one kind and a tail")
    return _Program(costs, frontiers, schedule, body[0]).solve(solver, time_limit_seconds)


class _Program:
    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: Schedule,
        layer: int,
    ) -> None:
        self.costs, self.frontiers, self.schedule, self.layer = costs, frontiers, schedule, layer
        self.model = mathopt.Model(name="sapp")
        layers = costs.sequence.count(layer)
        stages = range(schedule.stages)
        types = range(len(frontiers[layer].choices))
        self.counts = [
            [self.model.add_integer_variable(lb=0, ub=layers) for _ in types] for _ in stages
        ]
        self.ends = {
            0: self._end(costs.sequence[0]),
            schedule.stages - 1: self._end(costs.sequence[-1]),
        }
        every = mathopt.fast_sum(itertools.chain(*self.counts))
        self.model.add_linear_constraint(every == layers)
        for stage, mine in enumerate(self.counts):
            if stage not in self.ends:
                self.model.add_linear_constraint(mathopt.fast_sum(mine) >= 1)
        for device in range(schedule.devices):
            self._add_memory(device)
        self._minimise()

    def _end(self, kind: int) -> tuple[int, int]:
        """Head and tail recompute nothing that takes time."""
        return kind, int(self.frontiers[kind].seconds.argmin())

    def _terms(self, stage: int, each: list[float], end: float) -> mathopt.LinearSum:
        terms = [value * x for value, x in zip(each, self.counts[stage], strict=True)]
        return mathopt.fast_sum([*terms, end if stage in self.ends else 0.0])

    def _end_block(self, stage: int) -> tuple[float, float, float, float]:
        """Forward and backward seconds, states and kept bytes of the head or tail of a stage."""
        if stage not in self.ends:
            return 0.0, 0.0, 0.0, 0.0
        kind, choice = self.ends[stage]
        block, front = self.costs.blocks[kind], self.frontiers[kind]
        backward = block.backward_seconds + float(front.seconds[choice])
        return block.forward_seconds, backward, block.states.total, float(front.kept[choice])

    def _add_memory(self, device: int) -> None:
        unit = SCALE / self.costs.capacity_bytes
        states = self.costs.blocks[self.layer].states.total
        kept = self.frontiers[self.layer].kept.tolist()
        stages = self.schedule.stages_of(device)
        room = (self.costs.capacity_bytes - self.costs.reserved_bytes) * unit
        for moment in moments(self.schedule, device):
            held = []
            for stage, alive in zip(stages, moment.alive, strict=True):
                _, _, end_states, end_kept = self._end_block(stage)
                each = [(states + alive * one) * unit for one in kept]
                held.append(self._terms(stage, each, (end_states + alive * end_kept) * unit))
            self.model.add_linear_constraint(mathopt.fast_sum(held) <= room)

    def _minimise(self) -> None:
        costs, schedule, block = self.costs, self.schedule, self.costs.blocks[self.layer]
        work = sum(
            costs.blocks[kind].forward_seconds + costs.blocks[kind].backward_seconds
            for kind in costs.sequence
        )
        unit = SCALE / work
        again = self.frontiers[self.layer].seconds.tolist()
        forward, backward = [], []
        for stage in range(schedule.stages):
            ahead, back, _, _ = self._end_block(stage)
            each = [block.forward_seconds * unit for _ in again]
            forward.append(self._terms(stage, each, ahead * unit))
            each = [(block.backward_seconds + more) * unit for more in again]
            backward.append(self._terms(stage, each, back * unit))
        slowest = self.model.add_variable(lb=0.0)
        for device in range(schedule.devices):
            for one, other in itertools.product(schedule.stages_of(device), repeat=2):
                self.model.add_linear_constraint(forward[one] + backward[other] <= slowest)
        turns = costs.micro_batches * schedule.virtual_stages - 1
        self.model.minimize(mathopt.fast_sum([*forward, *backward]) + turns * slowest)

    def solve(self, solver: mathopt.SolverType, time_limit_seconds: float) -> Balanced | None:
        result = mathopt.solve(
            self.model,
            solver,
            params=mathopt.SolveParameters(
                time_limit=timedelta(seconds=time_limit_seconds),
                threads=1 if solver == mathopt.SolverType.CP_SAT else None,
                random_seed=0,
            ),
        )
        if not result.has_primal_feasible_solution():
            return None
        values = result.variable_values()
        cuts, parts, start = [], [], 0
        for stage, mine in enumerate(self.counts):
            taken = [(self.layer, at, round(values[x])) for at, x in enumerate(mine)]
            held = [part for part in taken if part[2]]
            if stage in self.ends:
                held.append((*self.ends[stage], 1))
            stop = start + sum(count for _, _, count in held)
            cuts.append((start, stop))
            parts.append(tuple(sorted(held)))
            start = stop
        proved = result.termination.reason == mathopt.TerminationReason.OPTIMAL
        return Balanced(tuple(cuts), tuple(parts), proved)
