"""What leafs cost at least, whatever their neighbours hold: a bound of every placement.

With the cost of a leaf's profile as in ``program.py``, every leaf costs at least f(c), the least
over all profiles of the c cells that it holds. All cells lie somewhere, so for any price of a cell

    crossing >= edge x rows x (stages - 1) + price x cells
                + sum over leafs of min over c up to its capacity of (f(c) - price x c)

(weak Lagrangian duality). The right side is concave in the price and bends where f's lower convex
hull does; where all leafs are needed whole it is the sum of f over their capacities.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from solver.placement.grid import Grid

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

MOST_WORK = 3e8
"""Steps up to which the table is made; beyond, only what whole columns save is known."""


def least_costs(grid: Grid, most_cells: int) -> Floats:
    """f of 0 to ``most_cells`` cells, bytes; infinite beyond the grid; shape (most_cells + 1,).

    Dynamic programming over stages; the state is the cells of the last stage and of all so far.
    Since a stage keeps min(before, now) rows, the best stage before is the best of those with at
    least as many cells, or of those with fewer less what these keep: two running minima.
    """
    rows, most = grid.rows, min(grid.rows, most_cells)
    if float(grid.stages) * (most + 1) * (most_cells + 1) > MOST_WORK:
        cells = np.arange(most_cells + 1, dtype=np.float64)
        return np.where(cells <= grid.cells, -grid.edge_bytes * cells, np.inf)
    few = np.arange(most + 1)
    own = grid.group_bytes * ((few > 0) & (few < rows))
    value = np.full((most + 1, most_cells + 1), np.inf)
    value[few, few] = own
    kept = grid.edge_bytes * few[:, None]
    for _ in range(grid.stages - 1):
        fewer = np.minimum.accumulate(value - kept, axis=0)
        more = np.minimum.accumulate(value[::-1], axis=0)[::-1] - kept
        reached = np.minimum(fewer, more)
        value = np.full_like(value, np.inf)
        for now in range(most + 1):
            value[now, now:] = reached[now, : most_cells + 1 - now] + own[now]
    return np.asarray(value.min(axis=0))


def least_crossing(grid: Grid, costs: Floats, capacities: Index) -> Floats:
    """The bound for many sets of leafs.

    Args:
        grid: The cells.
        costs: ``least_costs`` up to the largest capacity at least.
        capacities: Cells of each leaf, shape (sets, leafs); each set has room for the grid.

    Returns:
        Bytes, shape (sets,).
    """
    cells = np.arange(len(costs))
    finite = np.isfinite(costs)
    best = np.full(len(capacities), -np.inf)
    for price in _slopes(costs[finite]):
        reduced = np.where(finite, costs - price * cells, np.inf)
        of_leaf = np.minimum.accumulate(reduced)[np.minimum(capacities, len(costs) - 1)]
        best = np.maximum(best, price * grid.cells + of_leaf.sum(axis=1))
    whole = costs[np.minimum(capacities, len(costs) - 1)].sum(axis=1)
    best = np.where(capacities.sum(axis=1) == grid.cells, np.maximum(best, whole), best)
    constant = grid.edge_bytes * grid.rows * (grid.stages - 1)
    return np.maximum(constant + best, 0.0)


def _slopes(costs: Floats) -> list[float]:
    """Slopes of the lower convex hull of f, one for each of its edges."""
    hull: list[int] = []
    for at in range(len(costs)):
        while len(hull) > 1 and _slope(costs, hull[-1], at) <= _slope(costs, hull[-2], hull[-1]):
            hull.pop()
        hull.append(at)
    return [_slope(costs, a, b) for a, b in itertools.pairwise(hull)] or [0.0]


def _slope(costs: Floats, start: int, stop: int) -> float:
    return float(costs[stop] - costs[start]) / (stop - start)
