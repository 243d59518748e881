"""The least crossing of leafs, with a proof: a program over profiles of leafs.

Nodes of one leaf are alike, so an assignment is the number of cells a(l, s) of every stage s on
every leaf l. Between neighbouring stages at most sum_l min(a(l, s), a(l, s + 1)) rows stay on their
leaf, and any such numbers can be had at all borders at once, as rows are but chains of pairings.
With the profile a(l, .) of a leaf its cost is its own affair:

    cost(a) = group x #{s: 0 < a_s < rows} - edge x sum_s min(a_s, a_(s+1))

and the crossing is edge x rows x (stages - 1) + the sum of costs: a ring over k > 1 leafs crosses k
borders, and one whose leaf holds all of it none. One profile per leaf, every stage filled: the
linear relaxation is solved by generating columns (Dantzig and Wolfe 1960), where the best profile
for given prices is found exactly by dynamic programming over the stages. Rounding cuts that look
at a stage or at two neighbours, which the dynamic program can price, are added where fractions of
leafs break them. The value bounds every placement; the integer program over the generated profiles
gives one.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import pywraplp

from solver.placement.grid import Grid, Profile, profile_cost

Floats = npt.NDArray[np.float64]

_MOST_ROUNDS = 400
_MOST_ENTRIES = 400_000_000
"""Entries of the tables of all rounds together; some seconds."""
_FEW_CELLS, _WORK_OF_FEW, _WORK = 128, 4.0, 2.0
"""Cells up to which the integer program may take the first, and what it may take beyond, in the
solver's own measure of its work: no clock, so the same answer always; some seconds."""
_SMALL = 1e-9
_MOST_FINE = 1e4
_MOST_PLACES = 8
ENOUGH = 1e-4
"""Relative distance to the bound at which a placement is not improved any more."""


@dataclass(frozen=True)
class Solution:
    """A profile for each leaf that is used, and the proved bound; bytes.

    ``profiles`` is None where none better than those begun with was found.
    """

    profiles: list[Profile] | None
    crossing: float
    lower_bound: float


def solve(
    grid: Grid,
    capacities: dict[int, int],
    begun: Sequence[Sequence[Profile]],
    known: Sequence[Profile],
    deadline: float,
) -> Solution:
    """The best placement found with so much work, or until ``deadline`` (monotonic seconds).

    Args:
        grid: The cells.
        capacities: Cells of a leaf to the number of such leafs.
        begun: Placements to begin with, the best first, each by the profiles of its leafs.
        known: Other profiles to begin with.
        deadline: When to stop, should the work take longer.
    """
    scale = max(grid.group_bytes, grid.edge_bytes, 1e-30)
    grid = replace(grid, group_bytes=grid.group_bytes / scale, edge_bytes=grid.edge_bytes / scale)
    constant = grid.edge_bytes * grid.rows * (grid.stages - 1)
    master = _Master(grid, capacities)
    for profile in dict.fromkeys((*itertools.chain.from_iterable(begun), *known)):
        master.add(profile)
    bound = -math.inf
    best = sum(profile_cost(grid, profile) for profile in begun[0])
    enough = best - ENOUGH * (constant + best)
    for _ in range(_rounds(grid, max(capacities))):
        value = master.solve()
        if value is None:
            break
        added, gain, gains = False, 0.0, 0.0
        worths = _Worths(grid, master)
        worthiest = _best_profiles(grid, list(master.leafs), worths)
        for (capacity, count), (profile, worth) in zip(
            master.leafs.items(), worthiest, strict=True
        ):
            gain = max(gain, worth - master.rents[capacity])
            gains += count * gain
            if worth - master.rents[capacity] > _SMALL:
                for moved in _moved(profile):
                    added |= master.add(moved)
        bound = max(bound, value - gains)
        if time.monotonic() > deadline or bound >= enough:
            break
        if not (added or master.fined() or master.cut(violated(grid, master.amounts, master.cuts))):
            break
    if bound >= enough:
        lower = min(max(constant + bound, 0.0), constant + best)
        return Solution(None, (constant + best) * scale, lower * scale)
    left = deadline - time.monotonic()
    chosen = _integer(grid, master, begun[0], left) if left > 0 else None
    if chosen is None:
        return Solution(None, math.inf, max(constant + bound, 0.0) * scale)
    crossing = constant + sum(profile_cost(grid, profile) for profile in chosen)
    lower = min(max(constant + bound, 0.0), crossing)
    return Solution(chosen, crossing * scale, lower * scale)


def _rounds(grid: Grid, largest: int) -> int:
    """In how many rounds profiles are generated: their tables are as large as the leafs."""
    entries = grid.stages * (min(largest, grid.rows) + 1) ** 2 * (largest + 1)
    return max(1, min(_MOST_ROUNDS, _MOST_ENTRIES // entries))


@dataclass(frozen=True)
class Cut:
    """What whole numbers of leafs satisfy and fractions of them may not.

    A leaf with a cells of the stages [first, first + width) counts ceil(a / size); all leafs
    together at least ceil(rows x width / size) (Chvatal 1973: rounding up sums up no less).
    """

    first: int
    width: int
    size: int

    def count(self, profile: Profile) -> int:
        """What a leaf with this profile counts."""
        return -(-sum(profile[self.first : self.first + self.width]) // self.size)

    def least(self, rows: int) -> int:
        """What all leafs count at least."""
        return -(-rows * self.width // self.size)


def violated(grid: Grid, amounts: dict[Profile, float], known: list[Cut]) -> list[Cut]:
    """For every stage and every two neighbours the cut that fractions of leafs break most."""
    found = []
    most = max((sum(profile) for profile in amounts), default=0)
    for width in (1, 2):
        for first in range(grid.stages - width + 1):
            held = [
                (sum(profile[first : first + width]), amount) for profile, amount in amounts.items()
            ]
            sizes = {cells for cells, _ in held if cells > 1} | {most}
            best: tuple[float, Cut] | None = None
            for size in sizes:
                cut = Cut(first, width, size)
                total = sum(amount * -(-cells // size) for cells, amount in held)
                missing = cut.least(grid.rows) - total
                if missing > 1e-4 and cut not in known and (best is None or missing > best[0]):
                    best = (missing, cut)
            if best is not None:
                found.append(best[1])
    return found


def _moved(profile: Profile) -> Iterator[Profile]:
    """The profile here and there; stages are alike, so what is worth much is so elsewhere too."""
    first = next(stage for stage, cells in enumerate(profile) if cells)
    last = next(stage for stage, cells in enumerate(reversed(profile)) if cells)
    inner = profile[first : len(profile) - last]
    places = np.linspace(0, first + last, min(first + last + 1, _MOST_PLACES)).round().astype(int)
    for place in {first, *places.tolist()}:
        yield (0,) * place + inner + (0,) * (first + last - place)


class _Master:
    """The linear relaxation over the profiles and cuts at hand, which grow.

    Leafs that are larger can do what smaller ones can, so it suffices that for every capacity the
    profiles that need more than all smaller ones are no more than the leafs of it and above.

    Attributes:
        leafs: Capacities, ascending, with how many leafs have each.
        prices: Of a cell by stage. ``cut_prices``: of a cut's count. ``rents``: of a leaf by
            capacity.
        amounts: How often each profile is taken.
    """

    def __init__(self, grid: Grid, capacities: dict[int, int]) -> None:
        self._grid = grid
        self.leafs = dict(sorted(capacities.items()))
        self._solver = pywraplp.Solver.CreateSolver("CLP")
        self._objective = self._solver.Objective()
        self._objective.SetMinimization()
        rows = [self._solver.Constraint(grid.rows, grid.rows) for _ in range(grid.stages)]
        self._stages = rows
        self.bounds = nested(self.leafs)
        below = -self._solver.infinity()  # a bound of 0 would have a price of its own
        self._nested = [self._solver.Constraint(below, most) for _, most in self.bounds]
        self.columns: dict[Profile, Any] = {}
        self.cuts: list[Cut] = []
        self._rounded: list[Any] = []
        # Cells that no leaf holds, and cells held twice, for a fine: the relaxation gets weaker,
        # not wrong, and prices stay within the fine. It grows until no solution pays it.
        self._fine = 4.0 * (grid.group_bytes + grid.edge_bytes)
        self._missing = [self._solver.NumVar(0, self._solver.infinity(), "") for _ in rows]
        self._twice = [self._solver.NumVar(0, self._solver.infinity(), "") for _ in rows]
        for constraint, missing, twice in zip(rows, self._missing, self._twice, strict=True):
            constraint.SetCoefficient(missing, 1)
            constraint.SetCoefficient(twice, -1)
        self._set_fine()

    def _set_fine(self) -> None:
        for amount in (*self._missing, *self._twice):
            self._objective.SetCoefficient(amount, self._fine)

    def fined(self) -> bool:
        """Whether the solution pays a fine that can still grow; it grows then."""
        paid = sum(amount.solution_value() for amount in (*self._missing, *self._twice))
        if paid <= 1e-6 or self._fine > _MOST_FINE:
            return False
        self._fine *= 8.0
        self._set_fine()
        return True

    def add(self, profile: Profile) -> bool:
        """Take a profile in; whether it is new."""
        size = sum(profile)
        if profile in self.columns or not 0 < size <= max(self.leafs):
            return False
        amount = self._solver.NumVar(0, self._solver.infinity(), "")
        self.columns[profile] = amount
        cost = profile_cost(self._grid, profile)
        self._objective.SetCoefficient(amount, cost)
        for (beyond, _), row in zip(self.bounds, self._nested, strict=True):
            if size > beyond:
                row.SetCoefficient(amount, 1)
        for constraint, cells in zip(self._stages, profile, strict=True):
            if cells:
                constraint.SetCoefficient(amount, cells)
        for cut, row in zip(self.cuts, self._rounded, strict=True):
            row.SetCoefficient(amount, cut.count(profile))
        return True

    def cut(self, cuts: list[Cut]) -> bool:
        """Take cuts in; whether there are any."""
        for cut in cuts:
            row = self._solver.Constraint(cut.least(self._grid.rows), self._solver.infinity())
            for profile, amount in self.columns.items():
                row.SetCoefficient(amount, cut.count(profile))
            for stage in range(cut.first, cut.first + cut.width):
                row.SetCoefficient(self._missing[stage], 1)
            self.cuts.append(cut)
            self._rounded.append(row)
        return bool(cuts)

    def solve(self) -> float | None:
        """The value; prices, rents and amounts are set. None where numbers fail the solver."""
        if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
            afresh = pywraplp.MPSolverParameters()
            afresh.SetIntegerParam(afresh.INCREMENTALITY, afresh.INCREMENTALITY_OFF)
            if self._solver.Solve(afresh) != pywraplp.Solver.OPTIMAL:
                return None
        self.prices = np.array([constraint.dual_value() for constraint in self._stages])
        self.cut_prices = [row.dual_value() for row in self._rounded]
        rents = np.cumsum([-row.dual_value() for row in self._nested])
        self.rents = dict(zip(self.leafs, rents.tolist(), strict=True))
        self.amounts = {
            profile: amount.solution_value()
            for profile, amount in self.columns.items()
            if amount.solution_value() > _SMALL
        }
        return float(self._objective.Value())


def nested(leafs: dict[int, int]) -> list[tuple[int, int]]:
    """For capacities in ascending order: the next smaller one, and the leafs from this one up."""
    found, beyond, most = [], 0, sum(leafs.values())
    for capacity, count in leafs.items():
        found.append((beyond, most))
        beyond, most = capacity, most - count
    return found


class _Worths:
    """What cells are worth at given prices.

    ``alone``: by stage and cells, shape (stages, rows + 1). ``together``: by stage before, cells
    there and cells on the next, shape (stages - 1, rows + 1, rows + 1).
    """

    def __init__(self, grid: Grid, master: _Master) -> None:
        cells = np.arange(grid.rows + 1)
        own = -grid.group_bytes * ((cells > 0) & (cells < grid.rows))
        self.alone = master.prices[:, None] * cells + own
        both = cells[:, None] + cells[None, :]
        kept = grid.edge_bytes * np.minimum(cells[:, None], cells[None, :])
        self.together = np.repeat(kept[None], grid.stages - 1, axis=0)
        for cut, price in zip(master.cuts, master.cut_prices, strict=True):
            if price and cut.width == 1:
                self.alone[cut.first] += price * -(-cells // cut.size)
            elif price:
                self.together[cut.first] += price * -(-both // cut.size)


def _best_profiles(
    grid: Grid, capacities: list[int], worths: _Worths
) -> list[tuple[Profile, float]]:
    """For capacities in ascending order the profile that is worth most, and what.

    Dynamic programming over stages; the state is the cells of the last stage and of all so far.
    """
    largest = capacities[-1]
    most = min(largest, grid.rows)
    cells = np.arange(most + 1)
    value = np.full((most + 1, largest + 1), -np.inf)
    value[cells, cells] = worths.alone[0, : most + 1]
    choices: list[npt.NDArray[np.int64]] = []
    for stage in range(1, grid.stages):
        kept = worths.together[stage - 1, : most + 1, : most + 1]
        reached = value[:, None, :] + kept[:, :, None]  # (before, now, used)
        before = reached.argmax(axis=0)
        best = reached.max(axis=0)
        value = np.full_like(value, -np.inf)
        choice = np.zeros_like(value, dtype=np.int64)
        for now in range(most + 1):
            stop = largest + 1 - now
            value[now, now:] = best[now, :stop] + worths.alone[stage, now]
            choice[now, now:] = before[now, :stop]
        choices.append(choice)
    return [_walked_back(value[:, : capacity + 1], choices) for capacity in capacities]


def _walked_back(value: Floats, choices: list[npt.NDArray[np.int64]]) -> tuple[Profile, float]:
    """The profile of greatest value, stage by stage from the last."""
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
    master: _Master,
    begun: Sequence[Profile],
    seconds: float,
) -> list[Profile] | None:
    """Whole numbers of leafs for the profiles at hand; ``begun`` is a placement that is known."""
    solver = pywraplp.Solver.CreateSolver("SAT")
    solver.SetTimeLimit(max(1, int(1000 * seconds)))
    work = _WORK_OF_FEW if grid.cells <= _FEW_CELLS else _WORK
    solver.SetSolverSpecificParametersAsString(
        f"num_workers: 1 random_seed: 0 max_deterministic_time: {work}"
    )
    stages = [solver.Constraint(grid.rows, grid.rows) for _ in range(grid.stages)]
    rows = [(beyond, solver.Constraint(0, most)) for beyond, most in master.bounds]
    objective = solver.Objective()
    amounts = []
    for profile in master.columns:
        size = sum(profile)
        amount = solver.IntVar(0, sum(master.leafs.values()), "")
        objective.SetCoefficient(amount, profile_cost(grid, profile))
        for beyond, row in rows:
            if size > beyond:
                row.SetCoefficient(amount, 1)
        for constraint, cells in zip(stages, profile, strict=True):
            if cells:
                constraint.SetCoefficient(amount, cells)
        amounts.append((amount, profile))
    objective.SetMinimization()
    taken_first = Counter(begun)
    solver.SetHint(
        [amount for amount, _ in amounts], [taken_first[profile] for _, profile in amounts]
    )
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    return [profile for amount, profile in amounts for _ in range(round(amount.solution_value()))]
