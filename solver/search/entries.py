"""What a search over layouts has on its hands: members with their variants, layouts, regimes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.menu import Menu
from solver.partition.outcome import EXACT
from solver.partition.problem import Problem
from solver.partition.regime import Regime
from solver.search.envelope import Variant
from solver.search.outcome import Found, Stage


class End(IntEnum):
    """What became of a regime; of a layout, the greatest among its regimes."""

    INFEASIBLE = 0
    PRUNED = 1
    SOLVED = 2
    UNFINISHED = 3


def ending(bound: float, limit: float) -> End:
    """How a layout ends whose bound that is, where bounds must stay below ``limit``."""
    if not math.isfinite(bound):
        return End.INFEASIBLE
    return End.UNFINISHED if bound < limit * (1 - EXACT) else End.PRUNED


@dataclass(eq=False)
class Head:
    """A variant of a member that is looked at, and the variants that follow from it.

    ``others`` are numbered. ``floor``: none of their plans is below. ``lower`` is the least bound
    at which a regime of it ended; ``open`` counts regimes under way. ``gain``: seconds by which no
    other variant is faster; None: not looked at one by one yet. ``together``: the variants whose
    envelope ``costs`` is, ``layout`` and ``others`` among them; they are halved before any plan is
    made.
    """

    place: tuple[int, ...]
    layout: Layout
    others: tuple[tuple[int, Layout], ...]
    floor: float
    costs: PipelineCosts
    shared: bool = False
    lower: float = math.inf
    open: int = 0
    gain: float | None = None
    together: tuple[Variant, ...] = ()


@dataclass(order=True)
class Open:
    """A layout in question, or one of its regimes, ordered by its bound so far.

    ``found``: its best plan, once it was solved; ``cutoff``: what its plans had to be faster
    than then; ``cut_short``: its turn was over before it was done with.
    """

    bound: float
    place: tuple[int, ...]
    number: int
    layout: Layout = field(compare=False)
    costs: PipelineCosts = field(compare=False)
    head: Head = field(compare=False)
    stage: Stage = field(compare=False, default=Stage.WORK)
    regime: Regime | None = field(compare=False, default=None)
    problem: Problem | None = field(compare=False, default=None)
    menu: Menu | None = field(compare=False, default=None)
    found: Found | None = field(compare=False, default=None)
    cutoff: float = field(compare=False, default=math.inf)
    cut_short: bool = field(compare=False, default=False)
