"""The partition program where several stages share a device, and so its memory.

Stages of one device compete for memory at different moments, so a stage's choices cannot be looked
up by themselves; the program decides them. Sets: stages s, candidate runs r of s, block kinds k and
their choices c; devices d, and their moments (``schedules/moments.py``). ::

    minimise   T
    over       y[s, r] in {0, 1},  x[s, k, c] >= 0 integer,  u[s, k, c] in {0, 1},
               R[s] >= 0,  T >= 0
    (cover)    the stages' runs follow one another without gap; in a second copy of the model they
               are the same                                         -> PartitionModel.add_cover
    (choices)  sum over c of x[s, k, c] = sum over r of count[k, r] y[s, r]       -> _add_choices
    (buffer)   x[s, k, c] <= most[s, k] u[s, k, c],
               R[s] >= (rebuilt[k, c] + working[k]) u[s, k, c]                     -> _add_choices
    (memory)   for every moment of d: sum over its stages of states y + alive kept x + waiting
               held y, plus R of the stage that acts, if any, is at most the capacity
                                                                                   -> _add_memory
    (times)    f[s] = sum F y,  b[s] = sum B y + sum seconds x,  and gradients of weights apart
                                                                  -> PartitionModel.stage_time
    (paths)    T >= length of every path in the pool              -> PartitionModel.add_paths
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.math_opt.python import mathopt

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Candidates, Cut
from solver.partition.menu import Floats, Index, Mix
from solver.partition.program import PartitionModel, Values
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule
from solver.schedules.moments import moments

CAPACITY = 1e5
"""What the program counts a device's memory as, or its share of the states if that is more."""


@dataclass(frozen=True)
class SharedResult:
    """Cuts and mixes per stage (None if there is no better solution), and the bound."""

    plan: tuple[tuple[Cut, ...], tuple[Mix, ...]] | None
    bound: float


class SharedModel(PartitionModel):
    """The program above.

    Args:
        candidates: Runs in question; their ``backward`` is without recompute.
        counts: Blocks of each kind per signature, shape (signatures, kinds).
        states: State bytes per signature, shape (signatures,).
        costs: Capacity, reserved and working bytes.
        frontiers: What each kind may choose among.
        schedule: Who shares a device, and when it is fullest.
        unit: Seconds that the program counts as one.
    """

    def __init__(
        self,
        candidates: Candidates,
        counts: Index,
        states: Floats,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: Schedule,
        unit: float,
    ) -> None:
        super().__init__(candidates, unit)
        self.runs *= schedule.stages // self.depth  # copies of the model are cut alike
        self._counts, self._states = counts, states
        self._costs, self._frontiers, self._schedule = costs, frontiers, schedule
        held = sum(costs.blocks[kind].states.total for kind in costs.sequence)
        self._room = max(costs.capacity_bytes, held / schedule.devices)
        self._taken: dict[tuple[int, int, int], mathopt.Variable] = {}
        self._buffers = [self.model.add_variable(lb=0.0) for _ in self.runs]
        self._add_choices()
        self._add_memory()

    def _runs_of(self, stage: int) -> list[tuple[int, mathopt.Variable]]:
        """(signature, y) of a stage's runs."""
        signature = self.candidates.runs[stage % self.depth]
        return [(int(signature[a, b]), y) for a, b, y in self.runs[stage]]

    def _waits_of(self, stage: int) -> list[tuple[float, mathopt.Variable]]:
        """(bytes that wait with the gradients of weights, y) of a stage's runs, where any do."""
        held = self._counts @ [block.weight_held_bytes for block in self._costs.blocks]
        return [(float(held[run]), y) for run, y in self._runs_of(stage) if held[run] > 0]

    def _add_choices(self) -> None:
        for stage in range(len(self.runs)):
            runs = self._runs_of(stage)
            for kind, front in enumerate(self._frontiers):
                held = [(int(self._counts[run, kind]), y) for run, y in runs]
                most = max((count for count, _ in held), default=0)
                if most == 0:
                    continue
                choices = [self._choice(stage, kind, c, most) for c in range(len(front.choices))]
                total = mathopt.fast_sum([count * y for count, y in held if count])
                self.model.add_linear_constraint(mathopt.fast_sum(choices) == total)

    def _choice(self, stage: int, kind: int, choice: int, most: int) -> mathopt.Variable:
        front, block = self._frontiers[kind], self._costs.blocks[kind]
        taken = self.model.add_integer_variable(lb=0, ub=most)
        peak = float(front.rebuilt[choice]) + block.working_bytes
        if peak > 0:
            used = self.model.add_binary_variable()
            self.model.add_linear_constraint(taken <= most * used)
            self.model.add_linear_constraint(self._buffers[stage] >= self._scaled(peak) * used)
        self._taken[stage, kind, choice] = taken
        self.add_to_stage_time("backward", stage, float(front.seconds[choice]), taken)
        return taken

    def _scaled(self, size: float) -> float:
        """Bytes as parts of the memory, so that a solver's tolerances are small beside it."""
        return size / self._room * CAPACITY

    def _add_memory(self) -> None:
        room = self._scaled(self._costs.capacity_bytes - self._costs.reserved_bytes)
        held: dict[int, list[mathopt.LinearTerm]] = {}
        for (stage, kind, choice), taken in self._taken.items():
            kept = self._scaled(float(self._frontiers[kind].kept[choice]))
            held.setdefault(stage, []).append(kept * taken)
        for device in range(self._schedule.devices):
            stages = self._schedule.stages_of(device)
            states = [
                self._scaled(float(self._states[run])) * y
                for stage in stages
                for run, y in self._runs_of(stage)
            ]
            for moment in moments(self._schedule, device):
                terms = [
                    count * term
                    for stage, count in zip(stages, moment.alive, strict=True)
                    if count
                    for term in held.get(stage, [])
                ]
                terms += [
                    count * self._scaled(waits) * y
                    for stage, count in zip(stages, moment.waiting, strict=True)
                    if count
                    for waits, y in self._waits_of(stage)
                ]
                terms += states
                if moment.acting is not None:
                    terms.append(1.0 * self._buffers[moment.acting])
                self.model.add_linear_constraint(mathopt.fast_sum(terms) <= room)

    def solve_shared(
        self, relative_gap: float, time_limit_seconds: float, cutoff: float
    ) -> SharedResult:
        """Minimise T; solutions no better than ``cutoff`` are of no interest."""
        if cutoff < float("inf"):
            self.model.add_linear_constraint(self.makespan <= cutoff / self.unit)
        values, bound = self.minimise(self.makespan, relative_gap, time_limit_seconds)
        bound *= self.unit
        return SharedResult(None if values is None else self._plan(values), bound)

    def _plan(self, values: Values) -> tuple[tuple[Cut, ...], tuple[Mix, ...]]:
        cuts = self.chosen_cuts(values)
        parts: list[list[tuple[int, int, int]]] = [[] for _ in cuts]
        for (stage, kind, choice), taken in self._taken.items():
            if count := round(values[taken]):
                parts[stage].append((kind, choice, count))
        mixes = []
        for part in parts:
            seconds = sum(n * float(self._frontiers[k].seconds[c]) for k, c, n in part)
            mixes.append(Mix(seconds, seconds, tuple(sorted(part))))
        return cuts, tuple(mixes)
