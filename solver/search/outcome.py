"""How a search over layouts ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.layouts.family import Family
from solver.partition.menu import Menu
from solver.partition.outcome import Infeasible, Partition
from solver.partition.regime import Regime
from solver.schedules import Schedule
from solver.search.choice_bounds import Least


class Stage(StrEnum):
    """The bound that decided against a layout, from the cheapest to the dearest."""

    WORK = "work"
    MEMORY = "memory"
    BUBBLE = "bubble"
    CUTS = "cuts"
    PARTITION = "partition"


@dataclass(frozen=True)
class Found:
    """The winner of a search, all that its answer needs."""

    layout: Layout
    costs: PipelineCosts
    menu: Menu
    schedule: Schedule
    partition: Partition
    regime: Regime


@dataclass(frozen=True)
class Loser:
    """A layout that did not win: its best plan if it was solved, and its proved bound."""

    layout: Layout
    makespan: float | None
    lower_bound: float


@dataclass(frozen=True)
class Outcome:
    """How a search ended.

    ``lower_bound`` holds for every layout that was considered. Without a winner, ``nearest`` is the
    layout that misses least memory, with where it misses; it is None if time ran out first, or if
    a slower plan was known beforehand.
    ``losers`` are the layouts that were looked at one by one, fit and did not win, best first.
    ``pruned_by`` counts the pruned layouts by the bound that decided against them, the infeasible
    ones that were recognised by a bound included under memory. ``least`` is, for a field of the
    layout and each of its values, the proved bound of all layouts with that value
    (``choice_bounds.py``). ``by_bound`` is proved of the losers without those layouts that were
    tried by an estimate only. ``rest`` are members of families left for others to go on with; of
    the counts ``considered`` alone has them.
    """

    found: Found | None
    lower_bound: float
    nearest: tuple[Layout, Infeasible] | None
    considered: int
    pruned: int
    infeasible: int
    unfinished: int
    losers: tuple[Loser, ...] = ()
    pruned_by: dict[Stage, int] = field(default_factory=dict)
    least: Least = field(default_factory=dict)
    solved: int = 0
    by_bound: float = math.inf
    rest: tuple[tuple[Family, int], ...] = ()
