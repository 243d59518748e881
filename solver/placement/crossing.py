"""Bytes that cross leafs in an iteration, for one assignment of cells to leafs or for many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solver.placement.grid import Grid

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def crossing_bytes(grid: Grid, leafs: Index) -> Floats:
    """Of assignments ``leafs`` of shape (assignments, rows, stages), each entry a leaf's number.

    Returns shape (assignments,). A ring over k leafs crosses k borders if k > 1.
    """
    touched = distinct(leafs)
    borders = np.where(touched > 1, touched, 0).sum(axis=1)
    edges = (leafs[:, :, 1:] != leafs[:, :, :-1]).sum(axis=(1, 2))
    return np.asarray(grid.group_bytes * borders + grid.edge_bytes * edges, dtype=np.float64)


def distinct(leafs: Index) -> Index:
    """Leafs that each column touches; shape (assignments, stages)."""
    ordered = np.sort(leafs, axis=1)
    return np.asarray(1 + (ordered[:, 1:, :] != ordered[:, :-1, :]).sum(axis=1))


def patterns(grid: Grid, capacities: Index) -> tuple[Floats, Index]:
    """The best of a few orderly fillings, for many sets of leafs at once.

    The grid is cut into chunks of consecutive stages; each chunk is filled row by row, leaf after
    leaf, the largest first. Wide chunks keep pipelines together, narrow ones rings.

    Args:
        grid: The cells.
        capacities: Cells that each leaf can take; shape (sets, leafs).

    Returns:
        Crossing bytes, infinite where a set is too small, of shape (sets,), and the leafs of the
        best filling, of shape (sets, rows, stages).
    """
    sets = len(capacities)
    order = np.argsort(-capacities, axis=1, kind="stable")
    ends = np.cumsum(np.take_along_axis(capacities, order, axis=1), axis=1)
    place = np.arange(grid.cells)
    slot = (ends[:, None, :] <= place[None, :, None]).sum(axis=2)
    slot = np.minimum(slot, capacities.shape[1] - 1)
    filled = np.take_along_axis(order, slot, axis=1)
    best = np.full(sets, np.inf)
    chosen = np.zeros((sets, grid.rows, grid.stages), dtype=np.int64)
    for width in _widths(grid.stages):
        leafs = filled[:, _position(grid, width)]
        cost = crossing_bytes(grid, leafs)
        better = cost < best
        best[better], chosen[better] = cost[better], leafs[better]
    best[ends[:, -1] < grid.cells] = np.inf
    return best, chosen


def _widths(stages: int) -> list[int]:
    """Chunk widths worth a try: powers of two and the whole."""
    return sorted({stages, *(1 << power for power in range(stages.bit_length()))} - {0})


def _position(grid: Grid, width: int) -> Index:
    """The turn at which each cell is filled; shape (rows, stages)."""
    stage = np.arange(grid.stages)
    chunk, inner = stage // width, stage % width
    widths = np.minimum(width, grid.stages - chunk * width)
    row = np.arange(grid.rows)[:, None]
    return np.asarray(chunk * width * grid.rows + row * widths + inner)
