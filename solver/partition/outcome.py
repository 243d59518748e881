"""How the partition of one layout ends: the best one with its proof, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solver.partition.candidates import Cut
from solver.partition.menu import Mix, Part

EXACT = 1e-9
"""Relative improvement below which two makespans count as equal."""

MOST_ROUNDS = 200
"""Rounds of critical-path rows; real cases take a handful, this only guards against rounding."""


@dataclass(frozen=True)
class Partition:
    """The best cuts and mixes of a layout, with their proof.

    ``makespan`` is the simulated time of one iteration; ``lower_bound`` is proved for every
    partition and recompute choice of this layout. ``ahead``: which stages recompute ahead of the
    gradient; empty if none may. ``parts``: what each stage's blocks choose, where a method decided
    that without a menu; there are no ``mixes`` then.
    """

    cuts: tuple[Cut, ...]
    mixes: tuple[Mix, ...]
    makespan: float
    lower_bound: float
    rows: int
    rounds: int
    engine: str
    ahead: tuple[bool, ...] = ()
    parts: tuple[tuple[Part, ...], ...] = ()


@dataclass(frozen=True)
class Infeasible:
    """No partition fits: in the one whose fullest stage misses least, that stage and its bytes.

    Where no split is admitted, whatever the memory, the bytes are infinite (``NOT_ADMITTED``).
    """

    stage: int
    missing_bytes: float
    needed_bytes: float

    @property
    def admitted(self) -> bool:
        """Whether memory is what is missing."""
        return math.isfinite(self.missing_bytes)


NOT_ADMITTED = Infeasible(0, math.inf, math.inf)
"""No split of the blocks is one that stages may hold."""


@dataclass(frozen=True)
class Dominated:
    """The layout was given up: no plan faster than the cutoff was found.

    ``lower_bound`` is proved of all its plans; below the cutoff, a faster one may be left.
    """

    lower_bound: float
