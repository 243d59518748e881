"""The least crossing of leafs, with a proof: a program over profiles of leafs.

Nodes of one leaf are alike, so an assignment is the number of cells a(l, s) of every stage s on
every leaf l. Between neighbouring stages at most sum_l min(a(l, s), a(l, s + 1)) rows stay on their
leaf, and any such numbers can be had at all borders at once, as rows are but chains of pairings.
With the profile a(l, .) of a leaf its cost is its own affair:

    cost(a) = group x #{s: 0 < a_s < rows} - edge x sum_s min(a_s, a_(s+1))

and the crossing is edge x rows x (stages - 1) + the sum of costs: a ring over k > 1 leafs crosses k
borders, and one whose leaf holds all of it none. One profile per leaf, every stage filled: the
linear relaxation is solved by generating columns (Dantzig and Wolfe 1960), where the best profile
for given prices is found exactly by dynamic programming over the stages. Its value bounds every
placement; the integer program over the generated profiles gives one.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import pywraplp

from solver.placement.grid import Grid

Floats = npt.NDArray[np.float64]
Profile = tuple[int, ...]

_MOST_ROUNDS = 400
_SMALL = 1e-9


@dataclass(frozen=True)
class Solution:
    """A profile for each leaf that is used, by capacity, and the proved bound; bytes."""

    profiles: list[tuple[int, Profile]]
    crossing: float
    lower_bound: float


def solve(
    grid: Grid, capacities: dict[int, int], known: list[Profile], deadline: float
) -> Solution | None:
    """The best placement found until ``deadline`` (monotonic seconds).

    Args:
        grid: The cells.
        capacities: Cells of a leaf to the number of such leafs.
        known: Profiles of a placement to begin with.
        deadline: When to stop generating.
    """
    scale = max(grid.group_bytes, grid.edge_bytes, 1e-30)
    group, edge = grid.group_bytes / scale, grid.edge_bytes / scale
    constant = edge * grid.rows * (grid.stages - 1)
    columns = dict.fromkeys(known)
    bound = -math.inf
    for _ in range(_MOST_ROUNDS):
        relaxed = _Relaxed(grid, capacities, list(columns), group, edge)
        added, gains = False, 0.0
        for capacity, count in capacities.items():
            profile, worth = _best_profile(grid, capacity, relaxed.prices, group, edge)
            gain = worth - relaxed.rents[capacity]
            gains += count * max(gain, 0.0)
            if gain > _SMALL and profile not in columns:
                columns[profile] = None
                added = True
        bound = max(bound, relaxed.value - gains)
        if not added or time.monotonic() > deadline:
            break
    left = max(deadline - time.monotonic(), 0.2)
    chosen = _integer(grid, capacities, list(columns), group, edge, left)
    if chosen is None:
        return None
    crossing = constant + sum(_cost(grid, profile, group, edge) for _, profile in chosen)
    lower = min(max(constant + bound, 0.0), crossing)
    return Solution(chosen, crossing * scale, lower * scale)


def _cost(grid: Grid, profile: Profile, group: float, edge: float) -> float:
    partial = sum(0 < cells < grid.rows for cells in profile)
    kept = sum(min(pair) for pair in itertools.pairwise(profile))
    return group * partial - edge * kept


class _Relaxed:
    """The linear relaxation: its value, the price of a cell by stage, the rent of a leaf."""

    def __init__(
        self,
        grid: Grid,
        capacities: dict[int, int],
        columns: list[Profile],
        group: float,
        edge: float,
    ) -> None:
        solver = pywraplp.Solver.CreateSolver("GLOP")
        stages = [solver.Constraint(grid.rows, grid.rows) for _ in range(grid.stages)]
        leafs = {capacity: solver.Constraint(0, count) for capacity, count in capacities.items()}
        objective = solver.Objective()
        for profile in columns:
            for capacity in capacities:
                if sum(profile) <= capacity:
                    amount = solver.NumVar(0, solver.infinity(), "")
                    objective.SetCoefficient(amount, _cost(grid, profile, group, edge))
                    leafs[capacity].SetCoefficient(amount, 1)
                    for constraint, cells in zip(stages, profile, strict=True):
                        if cells:
                            constraint.SetCoefficient(amount, cells)
        # A filling of last resort, so dear that no solution keeps it.
        dear = 10.0 * (group * grid.stages + edge * grid.cells + 1.0)
        for constraint in stages:
            missing = solver.NumVar(0, solver.infinity(), "")
            objective.SetCoefficient(missing, dear)
            constraint.SetCoefficient(missing, 1)
        objective.SetMinimization()
        solver.Solve()
        self.value = objective.Value()
        self.prices = np.array([constraint.dual_value() for constraint in stages])
        self.rents = {capacity: -row.dual_value() for capacity, row in leafs.items()}


def _best_profile(
    grid: Grid, capacity: int, prices: Floats, group: float, edge: float
) -> tuple[Profile, float]:
    """The profile of at most ``capacity`` cells whose price exceeds its cost most, and by what.

    Dynamic programming over stages; the state is the cells of the last stage and of all so far.
    """
    most = min(capacity, grid.rows)
    cells = np.arange(most + 1)
    own = -group * ((cells > 0) & (cells < grid.rows))
    kept = edge * np.minimum(cells[:, None], cells[None, :])  # (before, now)
    value = np.full((most + 1, capacity + 1), -np.inf)
    value[cells, cells] = prices[0] * cells + own
    choices: list[npt.NDArray[np.int64]] = []
    for price in prices[1:]:
        reached = value[:, None, :] + kept[:, :, None]  # (before, now, used)
        before = reached.argmax(axis=0)
        best = np.take_along_axis(reached, before[None], axis=0)[0]
        value = np.full_like(value, -np.inf)
        choice = np.zeros_like(value, dtype=np.int64)
        for now in range(most + 1):
            stop = capacity + 1 - now
            value[now, now:] = best[now, :stop] + price * now + own[now]
            choice[now, now:] = before[now, :stop]
        choices.append(choice)
    now, used = (int(i) for i in np.unravel_index(int(value.argmax()), value.shape))
    worth = float(value[now, used])
    profile = [now]
    for choice in reversed(choices):
        before_now = int(choice[now, used])
        used -= now
        now = before_now
        profile.append(now)
    return tuple(reversed(profile)), worth


def _integer(
    grid: Grid,
    capacities: dict[int, int],
    columns: list[Profile],
    group: float,
    edge: float,
    seconds: float,
) -> list[tuple[int, Profile]] | None:
    """Whole numbers of leafs for the profiles at hand."""
    solver = pywraplp.Solver.CreateSolver("SCIP")
    solver.SetTimeLimit(int(1000 * seconds))
    stages = [solver.Constraint(grid.rows, grid.rows) for _ in range(grid.stages)]
    leafs = {capacity: solver.Constraint(0, count) for capacity, count in capacities.items()}
    objective = solver.Objective()
    amounts = []
    for profile in columns:
        for capacity, count in capacities.items():
            if 0 < sum(profile) <= capacity:
                amount = solver.IntVar(0, count, "")
                objective.SetCoefficient(amount, _cost(grid, profile, group, edge))
                leafs[capacity].SetCoefficient(amount, 1)
                for constraint, cells in zip(stages, profile, strict=True):
                    if cells:
                        constraint.SetCoefficient(amount, cells)
                amounts.append((amount, capacity, profile))
    objective.SetMinimization()
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    return [
        (capacity, profile)
        for amount, capacity, profile in amounts
        for _ in range(round(amount.solution_value()))
    ]
