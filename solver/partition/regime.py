"""One way in which a whole plan may be made, where a framework leaves only certain ways.

A free plan knows one regime: every block chooses from its frontier. A framework with one recompute
setting for all ranks knows a regime for each value of that setting; the search tries them side by
side, the most promising first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block, PipelineCosts
from solver.partition.candidates import Cut
from solver.partition.menu import Index, Menu
from solver.partition.outcome import Infeasible, Partition
from solver.recompute.frontier import Frontier
from solver.schedules import Schedule

Bools = npt.NDArray[np.bool_]

Admits = Callable[[Index], Bools]
"""Which counts of blocks, shape (runs, kinds), a stage may hold."""

Value = bool | int | str | tuple[str, ...]

Split = tuple[Cut, ...]
"""A run of blocks for every stage."""

Method = Callable[[PipelineCosts, Schedule], Partition | Infeasible]
"""From a layout's costs and schedule to the one plan that it has of it."""


@dataclass(frozen=True)
class Regime:
    """A menu for given costs, and what else holds of every plan that is made under it.

    Args:
        menu: What the blocks of these costs may choose among.
        setting: The same in a framework's own words, as (field, value); empty: a free choice.
        recompute_seconds: Per kind, what every block of it recomputes at least; empty: nothing.
        bound: Seconds that no plan under this regime is below; infinite if none can fit.
        lower: The same for a schedule, where it is dear; asked only when the regime is next.
        admits: Which counts of blocks, shape (runs, kinds), a stage may hold; None: any.
        splits: The only splits there are; None: any.
        ahead: Whether stages may recompute ahead of the gradient, where the schedule allows it.
        windows: Whether recompute may stand in windows of the following block's backward.
        method: What decides every layout by itself; None: the best of all plans is looked for.
        choices: Where each block chooses by itself, and that is all the menu knows: among what.
        costs: Those under which its plans are made; None: the layout's.
    """

    menu: Callable[[PipelineCosts], Menu]
    setting: tuple[tuple[str, Value], ...] = ()
    recompute_seconds: tuple[float, ...] = ()
    bound: float = 0.0
    lower: Callable[[Schedule], float] | None = None
    admits: Admits | None = None
    splits: tuple[Split, ...] | None = None
    ahead: bool = False
    windows: bool = False
    choices: Callable[[Block], Frontier] | None = None
    method: Method | None = None
    costs: PipelineCosts | None = None
