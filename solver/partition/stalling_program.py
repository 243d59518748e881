"""The partition program of stages that share devices and may recompute ahead of the gradient.

As ``shared_program.py``, with every choice there twice: on demand, and ahead. A stage does all one
way, and what it rebuilds ahead is held together. ::

    over       a[s] in {0, 1}: stage s recomputes ahead
    (timing)   choices on demand only where a[s] = 0, those ahead only where a[s] = 1
    (buffer)   R[s] >= sum over choices ahead of rebuilt x, plus the working bytes of each kind used
    (times)    of a choice ahead b[s] counts what lengthens collectives, r[s] the rest
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from ortools.math_opt.python import mathopt

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Candidates, Cut
from solver.partition.menu import Floats, Index, Mix
from solver.partition.program import Values
from solver.partition.shared_program import SharedModel
from solver.recompute.choice import Picked
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule


@dataclass(frozen=True)
class TimedFrontiers:
    """What the blocks of each kind may choose among, on demand and ahead of the gradient.

    ``alike``: whether both are the same.
    """

    on_demand: tuple[Frontier, ...]
    ahead: tuple[Frontier, ...]

    @property
    def alike(self) -> bool:
        """Whether what may be done on demand may be done ahead, and the other way round."""
        return all(a is b for a, b in zip(self.on_demand, self.ahead, strict=True))

    def of(self, *, ahead: bool) -> tuple[Frontier, ...]:
        """Those of one timing."""
        return self.ahead if ahead else self.on_demand


def charged_seconds(costs: PipelineCosts, front: Frontier, choice: int) -> float:
    """By how much a choice lengthens collectives: no part of what may run ahead."""
    charge = costs.overlapping.charge
    return charge * front.choices[choice].hidden_seconds if charge else 0.0


class StallingModel(SharedModel):
    """The program above; the arguments are those of ``SharedModel``, frontiers of both timings."""

    def __init__(
        self,
        candidates: Candidates,
        counts: Index,
        states: Floats,
        costs: PipelineCosts,
        frontiers: TimedFrontiers,
        schedule: Schedule,
        unit: float,
    ) -> None:
        self._timed = frontiers
        self._ahead: list[mathopt.Variable] = []
        self._gathered: dict[int, list[mathopt.LinearTerm]] = defaultdict(list)
        self._used: dict[int, list[mathopt.LinearTerm]] = defaultdict(list)
        both = tuple(
            _both(one, other)
            for one, other in zip(frontiers.on_demand, frontiers.ahead, strict=True)
        )
        super().__init__(candidates, counts, states, costs, both, schedule, unit)

    def _add_choices(self) -> None:
        self._ahead = [self.model.add_binary_variable() for _ in self.runs]
        super()._add_choices()
        for stage, buffer in enumerate(self._buffers):
            rebuilt = mathopt.fast_sum(self._gathered[stage])
            for working in self._used[stage] or [0.0]:
                self.model.add_linear_constraint(buffer >= rebuilt + working)

    def _choice(self, stage: int, kind: int, choice: int, most: int) -> mathopt.Variable:
        on_demand = len(self._timed.on_demand[kind].choices)
        if choice < on_demand:
            taken = super()._choice(stage, kind, choice, most)
            self.model.add_linear_constraint(taken <= most * (1 - self._ahead[stage]))
            return taken
        front, number = self._timed.ahead[kind], choice - on_demand
        taken = self.model.add_integer_variable(lb=0, ub=most)
        self.model.add_linear_constraint(taken <= most * self._ahead[stage])
        self._taken[stage, kind, choice] = taken
        self._gathered[stage].append(self._scaled(float(front.rebuilt[number])) * taken)
        working = self._costs.blocks[kind].working_bytes
        if working > 0:
            used = self.model.add_binary_variable()
            self.model.add_linear_constraint(taken <= most * used)
            self._used[stage].append(self._scaled(working) * used)
        charged = charged_seconds(self._costs, front, number)
        self.add_to_stage_time("backward", stage, charged, taken)
        self.add_to_stage_time("recompute", stage, float(front.seconds[number]) - charged, taken)
        return taken

    def _plan(self, values: Values) -> tuple[tuple[Cut, ...], tuple[Mix, ...]]:
        cuts, mixes = super()._plan(values)
        return cuts, tuple(self._timed_mix(mix) for mix in mixes)

    def _timed_mix(self, mix: Mix) -> Mix:
        """A mix of choices counted through both timings, in those of its own."""
        parts, ahead, charged = [], False, 0.0
        for kind, choice, count in mix.parts:
            number = choice - len(self._timed.on_demand[kind].choices)
            if number >= 0:
                ahead = True
                charged += count * charged_seconds(self._costs, self._timed.ahead[kind], number)
            parts.append((kind, number if number >= 0 else choice, count))
        return Mix(mix.seconds, mix.bound, tuple(sorted(parts)), charged, ahead)


def _both(one: Frontier, other: Frontier) -> Frontier:
    """Two frontiers, one after the other."""
    return Frontier(
        choices=Picked(
            (one.choices, other.choices), np.arange(len(one.choices) + len(other.choices))
        ),
        kept=np.concatenate([one.kept, other.kept]),
        seconds=np.concatenate([one.seconds, other.seconds]),
        rebuilt=np.concatenate([one.rebuilt, other.rebuilt]),
    )
