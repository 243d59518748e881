"""What leafs cost at least, whatever their neighbours hold: a bound of every placement.

With the cost of a leaf's profile as in ``program.py``, every leaf costs at least f(c), the least
over all profiles of the c cells that it holds. All cells lie somewhere, so for any price of a cell

    crossing >= edge x rows x (stages - 1) + price x cells
                + sum over leafs of min over c up to its capacity of (f(c) - price x c)

(weak Lagrangian duality). The right side is concave in the price and bends where the lower convex
hull of f up to some capacity does; where all leafs are needed whole it is the sum of f over their
capacities. Of one set of leafs the least sum of f itself is found, over whole numbers of cells that
fill the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
    most = np.minimum(capacities, len(costs) - 1)
    best = np.full(len(capacities), -np.inf)
    for price in _slopes(costs, np.unique(most)):
        of_leaf = _reduced(costs, price)[most]
        best = np.maximum(best, price * grid.cells + of_leaf.sum(axis=1))
    whole = costs[most].sum(axis=1)
    best = np.where(capacities.sum(axis=1) == grid.cells, np.maximum(best, whole), best)
    return np.maximum(_constant(grid) + best, 0.0)


def least_of_leafs(grid: Grid, costs: Floats, capacities: Sequence[int]) -> float:
    """The bound for one set of leafs with whole numbers of cells on each, bytes."""
    return max(_constant(grid) + filled_at_least(costs, capacities, grid.cells), 0.0)


def filled_at_least(costs: Floats, capacities: Sequence[int], cells: int) -> float:
    """The least sum of costs, by the cells on a leaf, with so many cells on all leafs together.

    Dynamic programming over the leafs; the state is how many cells lie on those so far.
    """
    best = np.full(cells + 1, np.inf)
    best[0] = 0.0
    for capacity in capacities:
        without = best.copy()
        for here in range(1, min(capacity, len(costs) - 1, cells) + 1):
            np.minimum(best[here:], without[:-here] + costs[here], out=best[here:])
    return float(best[-1])


def worths(grid: Grid, costs: Floats, capacities: Sequence[int]) -> dict[int, float]:
    """By cells on a leaf, the least that they cost, or more where a leaf is worth more elsewhere.

    Where all leafs are needed whole the least cost itself; else, at the price of the best bound,
    that of the cells and what the smallest leaf with so many is worth.
    """
    there = sorted({capacity for capacity in capacities if capacity})
    if sum(capacities) == grid.cells:
        return {cells: float(costs[cells]) for cells in there}
    table = np.array(capacities)
    _, price = max(
        (price * grid.cells + float(_reduced(costs, price)[table].sum()), price)
        for price in _slopes(costs, np.array(there))
    )
    of_leaf = _reduced(costs, price)
    return {
        cells: price * cells + float(of_leaf[min(c for c in there if c >= cells)])
        for cells in range(1, there[-1] + 1)
    }


def _constant(grid: Grid) -> float:
    """What all edges of the grid weigh."""
    return grid.edge_bytes * grid.rows * (grid.stages - 1)


def _reduced(costs: Floats, price: float) -> Floats:
    """By capacity the least of cost less price, of so many cells or fewer."""
    return np.asarray(np.minimum.accumulate(costs - price * np.arange(len(costs))))


def _slopes(costs: Floats, capacities: Index) -> list[float]:
    """Slopes of the lower convex hulls of f up to each capacity: where the bound bends."""
    finite = np.isfinite(costs)
    found = {0.0}
    for capacity in capacities.tolist():
        found.update(_hull(costs[: capacity + 1][finite[: capacity + 1]]))
    return sorted(found)


def _hull(costs: Floats) -> list[float]:
    """Slopes of the lower convex hull, one for each of its edges."""
    hull: list[int] = []
    for at in range(len(costs)):
        while len(hull) > 1 and _slope(costs, hull[-1], at) <= _slope(costs, hull[-2], hull[-1]):
            hull.pop()
        hull.append(at)
    return [_slope(costs, a, b) for a, b in itertools.pairwise(hull)]


def _slope(costs: Floats, start: int, stop: int) -> float:
    return float(costs[stop] - costs[start]) / (stop - start)
