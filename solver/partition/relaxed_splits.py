"""Splits over stages that share devices, relaxed: a linear program that bounds every plan.

Blocks are counted, not placed, and may be divided, and of a kind's choices those on the lower
convex hull of kept bytes and seconds are mixed in any parts. Sets: stages s, block kinds k, their
hull choices c, devices d and their moments (``schedules/moments.py``). ::

    minimise   T
    over       N[s, k] >= 0,  x[s, k, c] >= 0,  T >= 0
    (cover)    sum over s of N[s, k] = blocks of k;  sum over k of N[s, k] >= 1;  the blocks before
               a cut lie in the convex hull of those that any cut there can have -> _add_order
    (choices)  sum over c of x[s, k, c] = N[s, k]                                -> _add_choices
    (memory)   at every moment of d: states, kept and held bytes, and the least buffer of the
               acting stage are at most the capacity                             -> _add_memory
    (paths)    T >= length of every path in the pool, linear in N and x          -> add_path

What it leaves out makes a plan only slower, so that T is a bound. That blocks are whole is asked
for again in branches (``split_branches.py``): numbers of blocks with limits
(:meth:`RelaxedSplits.limited`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from ortools.math_opt.python import mathopt

from solver.costs.pipeline import PipelineCosts
from solver.partition.candidates import Cut
from solver.partition.greedy import steps
from solver.partition.menu import Floats, Index
from solver.partition.program import UNITS
from solver.recompute.frontier import Frontier
from solver.schedules import Path, Schedule, StageTimes, Work
from solver.schedules.moments import moments

CAPACITY = 1e3
"""What the program counts a device's memory as."""

MOST_PIECES = 6
"""Pieces of a hull up to which it is stated; leaving one out only weakens the bound."""

MOST_MOMENTS = 12
"""Moments of a device whose memory is stated: those at which most is alive."""

ROUNDING = 1e-7
"""Relative amount by which a solver's tolerances may make its bound too large."""

Terms = list[mathopt.LinearTerm]


@dataclass(frozen=True, eq=False)
class RelaxedSplit:
    """A solution: the bound, the times of its stages (one candidate), and its cuts made whole.

    ``shares``: per stage and kind, how many blocks take each choice of the kind's hull.
    ``numbers``: blocks of every kind on every device, the first ``devices`` of them, and then on
    every stage.
    """

    bound: float
    times: StageTimes
    cuts: tuple[Cut, ...]
    shares: list[dict[int, list[float]]]
    numbers: tuple[float, ...]
    devices: int


class Unsolved:
    """Time ran out before a relaxation had a solution, or its solver failed: nothing is known."""


class RelaxedSplits:
    """The program above.

    Args:
        costs: What each block costs.
        frontiers: What each kind may choose among.
        schedule: A schedule whose stages share devices.
        about: Seconds that a plan takes about; sets the program's units.
    """

    def __init__(
        self,
        costs: PipelineCosts,
        frontiers: tuple[Frontier, ...],
        schedule: Schedule,
        about: float,
    ) -> None:
        self._costs, self._frontiers, self._schedule = costs, frontiers, schedule
        self._unit = about / UNITS
        self._model = mathopt.Model(name="relaxed splits")
        self._makespan = self._model.add_variable(lb=0.0)
        self._model.minimize(self._makespan)
        kinds = len(costs.blocks)
        prefix = np.zeros((len(costs.sequence) + 1, kinds), dtype=np.int64)
        prefix[1:] = np.cumsum(np.eye(kinds, dtype=np.int64)[list(costs.sequence)], axis=0)
        self._prefix = prefix
        self._count: list[dict[int, mathopt.Variable]] = []
        self._edges: list[mathopt.Variable] = []
        self.hulls = [_hull(front) for front in frontiers]
        self._mixed: list[dict[int, list[mathopt.Variable]]] = []
        self._held: list[Terms] = []  # kept bytes of every stage
        self._full: list[tuple[int, mathopt.LinearConstraint]] = []  # acting stage, memory row
        self._paths: set[Path] = set()
        self._only: Index | None = None
        self._times: dict[Work, list[mathopt.Variable]] = {}
        self._ends: dict[tuple[str, int], mathopt.Variable] = {}
        self._add_cover()
        self._add_choices()
        self._add_memory()
        self._devices = self._device_counts()
        stages = [count for counts in self._count for count in counts.values()]
        self._numbers = [*self._devices, *stages]
        self._linear: mathopt.IncrementalSolver | None = None

    # -- statement --------------------------------------------------------------------------

    def _window(self, stage: int) -> tuple[int, int]:
        """The least and the most blocks before a stage."""
        return stage, len(self._costs.sequence) - self._schedule.depth + stage

    def _add_cover(self) -> None:
        add = self._model.add_linear_constraint
        kinds, depth = range(len(self._costs.blocks)), self._schedule.depth
        for stage in range(depth):
            low, high = self._window(stage)
            there = sorted(set(self._costs.sequence[low : high + 1]))
            self._count.append({kind: self._model.add_variable(lb=0.0) for kind in there})
            add(mathopt.fast_sum(list(self._count[-1].values())) >= 1.0)
        before: dict[int, mathopt.Variable] = {}
        for stage in range(1, depth):
            made = {}
            for kind in kinds:
                parts = [before[kind]] if kind in before else []
                if kind in self._count[stage - 1]:
                    parts.append(self._count[stage - 1][kind])
                made[kind] = self._model.add_variable(lb=0.0)
                add(made[kind] == mathopt.fast_sum(parts))
            edge = self._model.add_variable(lb=float(stage))
            add(edge == mathopt.fast_sum(list(made.values())))
            self._edges.append(edge)
            self._add_order(stage, edge, made)
            before = made
        for kind in kinds:
            rest = [before[kind]] if kind in before else []
            if kind in self._count[-1]:
                rest.append(self._count[-1][kind])
            add(mathopt.fast_sum(rest) == float(self._prefix[-1, kind]))

    def _add_order(
        self, stage: int, edge: mathopt.Variable, before: dict[int, mathopt.Variable]
    ) -> None:
        """Of every kind no more and no fewer blocks before the cut than the sequence can have."""
        low, high = self._window(stage)
        at = np.arange(low, high + 1)
        for kind, variable in before.items():
            values = self._prefix[low : high + 1, kind]
            for sign in (1, -1):
                pieces = _concave_pieces(at, sign * values)
                if len(pieces) > MOST_PIECES:
                    continue
                for slope, offset in pieces:
                    self._model.add_linear_constraint(sign * variable <= slope * edge + offset)

    def _add_choices(self) -> None:
        costs, schedule = self._costs, self._schedule
        late = schedule.splits_backward
        # What may run ahead of the gradient does: a path has that no more often than its backward.
        again = Work.RECOMPUTE if Work.RECOMPUTE in schedule.work else Work.BACKWARD
        times: dict[Work, list[Terms]] = {work: [] for work in schedule.work}
        for stage in range(schedule.stages):
            kept: Terms = []
            self._mixed.append({})
            parts: dict[Work, Terms] = {work: [] for work in schedule.work}
            for kind, count in self._count[stage % schedule.depth].items():
                block, front = costs.blocks[kind], self._frontiers[kind]
                weight = min(block.weight_seconds, block.backward_seconds) if late else 0.0
                parts[Work.FORWARD].append(block.forward_seconds / self._unit * count)
                plain = (block.backward_seconds - weight) / self._unit
                parts[Work.BACKWARD].append(plain * count)
                if late:
                    parts[Work.WEIGHT].append(block.weight_seconds / self._unit * count)
                mixed = [self._model.add_variable(lb=0.0) for _ in self.hulls[kind]]
                self._mixed[-1][kind] = mixed
                self._model.add_linear_constraint(mathopt.fast_sum(mixed) == count)
                for choice, taken in zip(self.hulls[kind], mixed, strict=True):
                    kept.append(self._scaled(float(front.kept[choice])) * taken)
                    seconds = float(front.seconds[choice]) / self._unit
                    parts[again].append(seconds * taken)
            self._held.append(kept)
            for work, terms in parts.items():
                times[work].append(terms)
        for work, stages in times.items():
            self._times[work] = [self._sum(terms) for terms in stages]

    def _sum(self, terms: Terms) -> mathopt.Variable:
        total = self._model.add_variable(lb=0.0)
        self._model.add_linear_constraint(mathopt.fast_sum(terms) == total)
        return total

    def _scaled(self, size: float) -> float:
        return size / self._costs.capacity_bytes * CAPACITY

    def _add_memory(self) -> None:
        costs, schedule = self._costs, self._schedule
        room = self._scaled(costs.capacity_bytes - costs.reserved_bytes)
        for device in range(schedule.devices):
            mine = schedule.stages_of(device)
            states = self._per_block(mine, [block.states.total for block in costs.blocks])
            waits = [
                self._per_block([stage], [block.weight_held_bytes for block in costs.blocks])
                for stage in mine
            ]
            fullest = sorted(moments(schedule, device), key=lambda moment: -sum(moment.alive))
            for moment in fullest[:MOST_MOMENTS]:
                terms = list(states)
                for stage, alive in zip(mine, moment.alive, strict=True):
                    terms += [alive * term for term in self._held[stage] if alive]
                for count, held in zip(moment.waiting, waits, strict=True):
                    terms += [count * term for term in held if count]
                row = self._model.add_linear_constraint(mathopt.fast_sum(terms) <= room)
                if moment.acting is not None:
                    self._full.append((moment.acting, row))
        self._set_buffers(self._least_buffers())

    def _least_buffers(self) -> list[float]:
        """What every stage rebuilds into at least, whatever it holds."""
        peaks = [
            float(front.rebuilt.min()) + block.working_bytes
            for front, block in zip(self._frontiers, self._costs.blocks, strict=True)
        ]
        return [
            min(peaks[kind] for kind in self._count[stage % self._schedule.depth])
            for stage in range(self._schedule.stages)
        ]

    def _set_buffers(self, buffers: list[float]) -> None:
        room = self._costs.capacity_bytes - self._costs.reserved_bytes
        for stage, row in self._full:
            row.upper_bound = self._scaled(room - buffers[stage])

    def _per_block(self, stages: list[int], sizes: list[float]) -> Terms:
        return [
            self._scaled(sizes[kind]) * count
            for stage in stages
            for kind, count in self._count[stage % self._schedule.depth].items()
            if sizes[kind]
        ]

    def _device_counts(self) -> list[mathopt.Variable]:
        """Blocks of every kind on every device."""
        made = []
        for device in range(self._schedule.devices):
            places = [stage % self._schedule.depth for stage in self._schedule.stages_of(device)]
            for kind in range(len(self._costs.blocks)):
                mine = [self._count[p][kind] for p in places if kind in self._count[p]]
                if mine:
                    total = self._model.add_variable(lb=0.0)
                    self._model.add_linear_constraint(mathopt.fast_sum(mine) == total)
                    made.append(total)
        return made

    # -- rows -------------------------------------------------------------------------------

    def add_path(self, path: Path) -> None:
        """(paths): the makespan is at least the path's length; once is enough."""
        if path in self._paths:
            return
        self._paths.add(path)
        terms: Terms = [
            count * self._times[work][stage]
            for work in self._schedule.work
            for stage, count in enumerate(path.count(work))
            if count
        ]
        ends = [("before_first", path.first), ("after_last", path.last)]
        terms += [1.0 * self._end(part, s) for part, s in ends if s is not None]
        steps_of = [block.optimizer_seconds for block in self._costs.blocks]
        for stage in path.step if any(steps_of) else ():
            for kind, count in self._count[stage % self._schedule.depth].items():
                terms.append(steps_of[kind] / self._unit * count)
        sends = path.sends * self._costs.send_seconds / self._unit
        self._model.add_linear_constraint(mathopt.fast_sum(terms) + sends <= self._makespan)

    def _end(self, part: str, stage: int) -> mathopt.Variable:
        """What a stage's gather or reduction shows of itself at least."""
        if (part, stage) not in self._ends:
            costs, first = self._costs, part == "before_first"
            shown = self._model.add_variable(lb=0.0)
            terms: Terms = []
            for kind, count in self._count[stage % self._schedule.depth].items():
                block = costs.blocks[kind]
                if first:
                    seconds = block.gather_seconds - costs.gather_overlap * block.forward_seconds
                else:
                    hidden = costs.gradient_overlap * block.backward_seconds
                    seconds = block.gradient_seconds - hidden
                terms.append(seconds / self._unit * count)
            self._model.add_linear_constraint(mathopt.fast_sum(terms) <= shown)
            self._ends[part, stage] = shown
        return self._ends[part, stage]

    # -- one split ---------------------------------------------------------------------------

    def only(self, counts: Index) -> None:
        """There is no other split than this; ``counts`` as for :meth:`hold`."""
        self._only = counts
        self.release()

    def hold(self, counts: Index, buffers: list[float]) -> None:
        """From now on only this split, with these bytes to rebuild into, until :meth:`release`.

        Args:
            counts: Blocks of every kind per stage, shape (depth, kinds).
            buffers: Bytes per stage.
        """
        self._fix(counts)
        self._set_buffers(buffers)

    def _fix(self, counts: Index) -> None:
        for count, row in zip(self._count, counts.tolist(), strict=True):
            for kind, variable in count.items():
                variable.lower_bound = variable.upper_bound = float(row[kind])

    def release(self) -> None:
        """All splits that there are again."""
        for count in self._count:
            for variable in count.values():
                variable.lower_bound, variable.upper_bound = 0.0, math.inf
        if self._only is not None:
            self._fix(self._only)
        self._set_buffers(self._least_buffers())

    @contextmanager
    def limited(self, limits: Mapping[int, tuple[float, float]]) -> Iterator[None]:
        """Meanwhile some of the ``numbers`` of blocks stay within these limits."""
        before = {}
        for place, (low, high) in limits.items():
            number = self._numbers[place]
            before[place] = number.lower_bound, number.upper_bound
            number.lower_bound, number.upper_bound = low, high
        yield
        for place, (low, high) in before.items():
            number = self._numbers[place]
            number.lower_bound, number.upper_bound = low, high

    # -- solutions --------------------------------------------------------------------------

    def solve(self, seconds: float) -> RelaxedSplit | Unsolved | None:
        """The optimum; None if the relaxation fits no memory."""
        parameters = mathopt.SolveParameters(time_limit=timedelta(seconds=max(seconds, 0.1)))
        try:
            if self._linear is None:
                self._linear = mathopt.IncrementalSolver(self._model, mathopt.SolverType.GLOP)
            result = self._linear.solve(params=parameters)
        except Exception:
            self._linear = None
            return Unsolved()
        return self._solution(result)

    def _solution(self, result: mathopt.SolveResult) -> RelaxedSplit | Unsolved | None:
        reason, bounds = result.termination.reason, result.termination.objective_bounds
        if reason in (
            mathopt.TerminationReason.INFEASIBLE,
            mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED,
        ):
            return None
        if reason is not mathopt.TerminationReason.OPTIMAL:
            return Unsolved()
        values = result.variable_values()
        bound = float(bounds.dual_bound) * self._unit * (1 - ROUNDING)

        def seconds(work: Work) -> Floats:
            found = [values[variable] for variable in self._times[work]]
            return np.maximum(np.array([found]) * self._unit, 0.0)

        stages = self._schedule.stages
        ends = {part: np.zeros((1, stages)) for part in ("before_first", "after_last")}
        for (part, stage), variable in self._ends.items():
            ends[part][0, stage] = values[variable] * self._unit
        times = StageTimes.of(
            seconds(Work.FORWARD),
            seconds(Work.BACKWARD),
            self._costs.send_seconds,
            before_first=ends["before_first"],
            after_last=ends["after_last"],
            weight=seconds(Work.WEIGHT) if Work.WEIGHT in self._schedule.work else None,
            recompute=seconds(Work.RECOMPUTE) if Work.RECOMPUTE in self._schedule.work else None,
        )
        shares = [
            {kind: [max(values[one], 0.0) for one in mixed] for kind, mixed in kinds.items()}
            for kinds in self._mixed
        ]
        cuts = self._cuts([values[edge] for edge in self._edges])
        numbers = tuple(values[number] for number in self._numbers)
        return RelaxedSplit(bound, times, cuts, shares, numbers, len(self._devices))

    def _cuts(self, edges: list[float]) -> tuple[Cut, ...]:
        """The nearest whole cuts that leave every stage a block."""
        whole = [0]
        for stage, edge in enumerate(edges, start=1):
            _, most = self._window(stage)
            whole.append(min(max(round(edge), whole[-1] + 1), most))
        whole.append(len(self._costs.sequence))
        return tuple(itertools.pairwise(whole))


def _hull(front: Frontier) -> list[int]:
    """The choices on the lower convex hull of kept bytes and seconds."""
    first, made = steps(front)
    return [first, *(step.after for step in made)]


def _concave_pieces(at: Index, values: Index) -> list[tuple[float, float]]:
    """Slopes and offsets of the upper convex hull of the points (at, values)."""
    hull: list[tuple[int, int]] = []
    for point in zip(at.tolist(), values.tolist(), strict=True):
        while len(hull) > 1 and _below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    if len(hull) == 1:
        return [(0.0, float(hull[0][1]))]
    pieces = []
    for (a, low), (b, high) in itertools.pairwise(hull):
        slope = (high - low) / (b - a)
        pieces.append((slope, low - slope * a))
    return pieces


def _below(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Whether b lies on or below the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])
