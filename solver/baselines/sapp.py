"""SAPP's integer program: how many layers of each recompute type a chunk of a stage holds.

MindSpore's ``sapp_ppb`` (MindFormers ``toolkit/pipeline_balance``, now hyper-parallel) counts the
layers of every recompute type on every chunk of every stage, the head glued to the first chunk and
the tail to the last, at least one layer on a chunk that holds neither. It solves, there with PuLP
and CBC::

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
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from ortools.math_opt.python import mathopt

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Cut
from solver.quiet import quiet
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
    constant_bytes: float = 0.0,
    most_nodes: int | None = None,
) -> Balanced | None:
    """The program's plan; None if it finds none within its limits.

    Args:
        costs: Maybe a head, layers of one kind, maybe a tail.
        frontiers: The recompute types of each kind.
        schedule: 1F1B, interleaved or not.
        time_limit_seconds: SAPP's own is 90.
        solver: Which of MathOpt's solvers.
        constant_bytes: What every device needs whatever it holds.
        most_nodes: Nodes of the search; None: any number.

    Raises:
        ValueError: The model has several kinds of layer.
    """
    framed = frame(costs.sequence)
    if framed is None:
        raise ValueError("SAPP balances a head, layers of one kind and a tail")
    program = _Program(costs, frontiers, schedule, framed, constant_bytes)
    return program.solve(solver, time_limit_seconds, most_nodes)


@dataclass(frozen=True)
class Frame:
    """A model as SAPP sees it: the kinds of the head and tail, and the kind of every layer."""

    head: tuple[int, ...]
    layer: int
    tail: tuple[int, ...]


def frame(sequence: tuple[int, ...]) -> Frame | None:
    """The commonest kind as layers, at most one other block at either end; else None."""
    layer, count = Counter(sequence).most_common(1)[0]
    start = sequence.index(layer)
    head, tail = sequence[:start], sequence[start + count :]
    return None if layer in tail or max(len(head), len(tail)) > 1 else Frame(head, layer, tail)


class _Program:
    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: Schedule,
        framed: Frame,
        constant_bytes: float,
    ) -> None:
        self.costs, self.frontiers, self.schedule = costs, frontiers, schedule
        self.layer = layer = framed.layer
        self.constant_bytes = constant_bytes
        self.model = mathopt.Model(name="sapp")
        layers = costs.sequence.count(layer)
        stages = range(schedule.stages)
        types = range(len(frontiers[layer].choices))
        self.counts = [
            [self.model.add_integer_variable(lb=0, ub=layers) for _ in types] for _ in stages
        ]
        self.ends: list[list[tuple[int, int]]] = [[] for _ in stages]
        self.ends[0] += [self._end(kind) for kind in framed.head]
        self.ends[-1] += [self._end(kind) for kind in framed.tail]
        every = mathopt.fast_sum(itertools.chain(*self.counts))
        self.model.add_linear_constraint(every == layers)
        for stage, mine in enumerate(self.counts):
            if not self.ends[stage]:
                self.model.add_linear_constraint(mathopt.fast_sum(mine) >= 1)
        for device in range(schedule.devices):
            self._add_memory(device)
        self._minimise()

    def _end(self, kind: int) -> tuple[int, int]:
        """Head and tail recompute nothing that takes time."""
        return kind, int(self.frontiers[kind].seconds.argmin())

    def _terms(self, stage: int, each: list[float], end: float) -> mathopt.LinearSum:
        terms = [value * x for value, x in zip(each, self.counts[stage], strict=True)]
        return mathopt.fast_sum([*terms, end])

    def _end_block(self, stage: int) -> tuple[float, float, float, float]:
        """Forward and backward seconds, states and kept bytes of the head and tail of a stage."""
        forward = backward = states = kept = 0.0
        for kind, choice in self.ends[stage]:
            block, front = self.costs.blocks[kind], self.frontiers[kind]
            forward += block.forward_seconds
            backward += block.backward_seconds + float(front.seconds[choice])
            states += block.states.total
            kept += float(front.kept[choice])
        return forward, backward, states, kept

    def _add_memory(self, device: int) -> None:
        unit = SCALE / self.costs.capacity_bytes
        states = self.costs.blocks[self.layer].states.total
        kept = self.frontiers[self.layer].kept.tolist()
        stages = self.schedule.stages_of(device)
        taken = self.costs.reserved_bytes + self.constant_bytes
        room = (self.costs.capacity_bytes - taken) * unit
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

    def solve(
        self, solver: mathopt.SolverType, time_limit_seconds: float, most_nodes: int | None
    ) -> Balanced | None:
        parameters = mathopt.SolveParameters(
            time_limit=timedelta(seconds=time_limit_seconds),
            node_limit=most_nodes,
            threads=1 if solver == mathopt.SolverType.CP_SAT else None,
            random_seed=0,
        )
        with quiet():
            result = mathopt.solve(self.model, solver, params=parameters)
        if not result.has_primal_feasible_solution():
            return None
        values = result.variable_values()
        cuts, parts, start = [], [], 0
        for stage, mine in enumerate(self.counts):
            taken = [(self.layer, at, round(values[x])) for at, x in enumerate(mine)]
            held = [part for part in taken if part[2]]
            held += [(*end, 1) for end in self.ends[stage]]
            stop = start + sum(count for _, _, count in held)
            cuts.append((start, stop))
            parts.append(tuple(sorted(held)))
            start = stop
        proved = result.termination.reason == mathopt.TerminationReason.OPTIMAL
        return Balanced(tuple(cuts), tuple(parts), proved)
