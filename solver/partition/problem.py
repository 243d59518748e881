"""One layout's partition problem, whichever way its schedule asks for it to be solved."""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Menu
from solver.partition.shared import SharedProblem
from solver.partition.solve import PartitionProblem
from solver.schedules import Schedule

Problem = PartitionProblem | SharedProblem


def partition_problem(costs: PipelineCosts, menu: Menu, schedule: Schedule) -> Problem:
    """The problem of a layout: stages alone on their device, or several sharing it.

    Raises:
        BadRequest: The recompute policy cannot be planned over virtual stages.
    """
    if schedule.virtual_stages == 1:
        return PartitionProblem(costs, menu, schedule)
    if not isinstance(menu, FreeMenu):
        raise BadRequest(
            "Policies block and uniform are planned with one stage per device only.",
            field="recompute.policy",
            hint="Use optimal, none, full or selective, or leave virtual_stages out.",
        )
    return SharedProblem(costs, menu, schedule)
