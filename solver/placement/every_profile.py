"""All profiles of a leaf, where they are few enough to put into the program at once."""

from __future__ import annotations

import math
from collections.abc import Iterator

from solver.placement.grid import Grid

MOST = 3000
"""Profiles that the integer program takes whole, so that it is exact."""


def every_profile(grid: Grid, capacity: int) -> list[tuple[int, ...]] | None:
    """Profiles of at most ``capacity`` cells; None if there are more than ``MOST``."""
    if math.comb(capacity + grid.stages, grid.stages) > 50 * MOST:
        return None
    found = []
    for profile in _profiles(grid.stages, grid.rows, capacity):
        found.append(profile)
        if len(found) > MOST:
            return None
    return found


def _profiles(stages: int, rows: int, capacity: int) -> Iterator[tuple[int, ...]]:
    if stages == 0:
        yield ()
        return
    for first in range(min(rows, capacity) + 1):
        for rest in _profiles(stages - 1, rows, capacity - first):
            yield (first, *rest)
