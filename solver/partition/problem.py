"""One layout's partition problem, whichever way its schedule and its regime ask for it."""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.alike_menu import AlikeMenu
from solver.partition.decided import Decided
from solver.partition.free_menu import FreeMenu
from solver.partition.given_shared_splits import GivenSharedSplits
from solver.partition.given_splits import GivenSplits
from solver.partition.menu import Menu
from solver.partition.prefix_menu import PrefixMenu
from solver.partition.prefix_shared import PrefixSharedProblem
from solver.partition.regime import Admits, Regime, Split
from solver.partition.ruled_shared import RuledSharedProblem
from solver.partition.shared import SharedProblem
from solver.partition.solve import PartitionProblem
from solver.partition.stalling_shared import StallingProblem
from solver.partition.timed_menu import TimedMenu
from solver.partition.window_menu import WindowMenu
from solver.schedules import Schedule, Work

Problem = PartitionProblem | SharedProblem | GivenSplits | GivenSharedSplits | Decided


def menu_on(menu: Menu, schedule: Schedule) -> Menu:
    """The menu as a schedule can use it.

    Chunks of a device, and stages that make gradients of weights apart, hide recompute in windows
    of their own blocks; chunks in stalls as well.
    """
    if Work.RECOMPUTE not in schedule.work and isinstance(menu, TimedMenu):
        menu = menu.on_demand
    apart = schedule.virtual_stages > 1 or schedule.splits_backward
    if apart and isinstance(menu, TimedMenu):
        return TimedMenu(menu_on(menu.on_demand, schedule), menu_on(menu.ahead(), schedule))
    if apart and isinstance(menu, WindowMenu):
        return menu.alone
    return menu


def partition_problem(
    costs: PipelineCosts, menu: Menu, schedule: Schedule, regime: Regime | None = None
) -> Problem:
    """The problem of a layout: stages alone on their device, or several sharing it.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among; the regime's own for these costs.
        schedule: Who does what when.
        regime: What else holds of every plan; None: nothing.

    Raises:
        BadRequest: One choice per stage is asked for where stages share devices.
    """
    if regime is not None and regime.method is not None:
        return Decided(costs, schedule, regime.method)
    admits = None if regime is None else regime.admits
    splits = None if regime is None else regime.splits
    if schedule.virtual_stages == 1:
        if splits is not None:
            return GivenSplits(costs, menu, schedule, splits)
        return PartitionProblem(costs, menu, schedule, admits)
    if isinstance(menu, AlikeMenu):
        raise BadRequest(
            "One choice per stage is planned with one stage per device.",
            field="recompute.choice_per",
            hint="Choose per block or per model, or leave virtual_stages out.",
        )
    if splits is None:
        return _shared(costs, menu, schedule, admits)
    problems = [_shared(costs, menu, schedule, admits, split) for split in splits]
    return GivenSharedSplits(schedule, problems)


def _shared(
    costs: PipelineCosts,
    menu: Menu,
    schedule: Schedule,
    admits: Admits | None,
    split: Split | None = None,
) -> SharedProblem:
    """The problem of stages that share devices, by what their blocks may choose among."""
    if isinstance(menu, TimedMenu):
        return StallingProblem(costs, menu, schedule, admits, split)
    if isinstance(menu, FreeMenu):
        return SharedProblem(costs, menu, schedule, admits, split)
    if isinstance(menu, PrefixMenu):
        return PrefixSharedProblem(costs, menu, schedule, admits, split)
    return RuledSharedProblem(costs, menu, schedule, admits, split)
