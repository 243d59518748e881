"""The stages of a given split under a policy, for evaluations."""

from __future__ import annotations

from solver.assess import assess
from solver.baselines.methods import METHODS, Method
from solver.costs.pipeline import PipelineCosts
from solver.partition.given_shared_splits import GivenSharedSplits
from solver.partition.menu import Menu
from solver.partition.policy_menu import least_memory_menu, policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.partition.problem import menu_on, partition_problem
from solver.partition.regime import Regime, Split
from solver.partition.stages import Stage, decided_stages, stages_at, with_ample_memory
from solver.request import Overlap, Policy, Recompute
from solver.schedules import Schedule


def stages_under(
    recompute: Recompute,
    costs: PipelineCosts,
    schedule: Schedule,
    cuts: tuple[tuple[int, int], ...],
) -> tuple[Stage, ...]:
    """The stages of a split under a policy, whether or not they fit."""
    if recompute.policy in METHODS:
        return _by_method(METHODS[recompute.policy], recompute, costs, schedule)
    if recompute.policy is Policy.OPTIMAL:
        regimes = policy_regimes(costs, recompute)
        made = [_optimal(costs, regime.menu(costs), schedule, cuts) for regime in regimes]
        fitting = [stages for stages in made if stages is not None]
        if fitting:
            return min(fitting, key=lambda stages: assess(costs, schedule, stages).makespan)
    ample = with_ample_memory(costs)
    menu = least_memory_menu(ample)
    if recompute.policy is not Policy.OPTIMAL:
        menu = policy_menu(ample, recompute)
    stages = stages_at(ample, menu, schedule, cuts)
    assert stages is not None, "everything fits an ample memory"
    return stages


def _optimal(
    costs: PipelineCosts, menu: Menu, schedule: Schedule, cuts: Split
) -> tuple[Stage, ...] | None:
    """The best stages of these cuts; None if they cannot fit.

    Chunks of a device share its memory, so that what one keeps another may not.
    """
    if schedule.virtual_stages == 1:
        return stages_at(costs, menu, schedule, cuts)
    menu = menu_on(menu, schedule)
    regime = Regime(lambda _: menu, splits=(cuts[: schedule.depth],))
    problem = partition_problem(costs, menu, schedule, regime)
    assert isinstance(problem, GivenSharedSplits)
    found = problem.unproved()
    return None if found is None else decided_stages(found, menu)


def _by_method(
    method: Method, recompute: Recompute, costs: PipelineCosts, schedule: Schedule
) -> tuple[Stage, ...]:
    """A method's own cuts and choices; where it finds none that fit, all devices have room."""
    method.refuse(schedule.name, schedule.virtual_stages)
    if costs.devices:
        method.refuse_unlike_devices()
    overlap = recompute.overlap or Overlap.OFF
    stages = method.stages(costs, schedule, overlap) or method.stages(
        with_ample_memory(costs), schedule, overlap
    )
    assert stages is not None, "everything fits an ample memory"
    return stages
