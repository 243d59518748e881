"""Placements made of blocks: which blocks, side by side, cover all stages and cross least.

An integer program over the blocks at hand: their widths add up to the stages, and their leafs are
there. A larger leaf does for a smaller one, so it suffices that of every capacity and above there
are as many leafs as are taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortools.linear_solver import pywraplp

from solver.placement.blocks import Block
from solver.placement.grid import Grid, Profile, profile_cost

WORK = 0.5
"""What the program may take, in the solver's own measure of its work: no clock, so the same answer
always; about a second."""

GOOD = 0.003
"""Relative distance to the program's own bound at which it ends."""


def cover(
    grid: Grid, found: Sequence[Block], capacities: Sequence[int], least: float
) -> list[Profile] | None:
    """Profiles of leafs on all stages, or None where the blocks at hand do not cover them.

    Args:
        grid: The cells.
        found: Blocks.
        capacities: Cells of every leaf.
        least: A bound of every placement, bytes.
    """
    solver = pywraplp.Solver.CreateSolver("SAT")
    solver.SetSolverSpecificParametersAsString(
        f"num_workers: 1 random_seed: 0 max_deterministic_time: {WORK} relative_gap_limit: {GOOD}"
    )
    objective = solver.Objective()
    objective.SetMinimization()
    objective.SetOffset(-grid.edge_bytes * grid.rows / least)
    stages = solver.Constraint(grid.stages, grid.stages)
    there = sorted(set(capacities))
    leafs = [
        (capacity, solver.Constraint(0, sum(each >= capacity for each in capacities)))
        for capacity in there
        if capacity
    ]
    amounts = []
    for block in found:
        amount = solver.IntVar(0, grid.stages // block.width, "")
        edges = grid.edge_bytes * grid.rows * block.width
        cost = edges + sum(profile_cost(grid, profile) for profile in block.profiles)
        objective.SetCoefficient(amount, cost / least)
        stages.SetCoefficient(amount, block.width)
        for number, (_, row) in enumerate(leafs):
            below = leafs[number - 1][0] if number else 0
            row.SetCoefficient(amount, sum(size > below for size in block.sizes))
        amounts.append(amount)
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return None
    profiles, first = [], 0
    for block, amount in zip(found, amounts, strict=True):
        for _ in range(round(amount.solution_value())):
            after = grid.stages - first - block.width
            profiles += [(0,) * first + profile + (0,) * after for profile in block.profiles]
            first += block.width
    return profiles
