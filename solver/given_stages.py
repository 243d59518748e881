"""The stages of a given split under a policy, for evaluations."""

from __future__ import annotations

from solver.assess import assess
from solver.baselines.adapipe import adapipe
from solver.baselines.lynx_heu import lynx_heu
from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.policy_menu import least_memory_menu, policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.partition.stages import Stage, stages_at, with_ample_memory
from solver.request import Overlap, Policy, Recompute
from solver.schedules import Schedule


def stages_under(
    recompute: Recompute,
    costs: PipelineCosts,
    schedule: Schedule,
    cuts: tuple[tuple[int, int], ...],
) -> tuple[Stage, ...]:
    """The stages of a split under a policy, whether or not they fit."""
    if recompute.policy is Policy.ADAPIPE:
        return _adapipe_stages(costs, schedule)
    if recompute.policy is Policy.LYNX_HEU:
        return _lynx_stages(costs, schedule, recompute.overlap or Overlap.OFF)
    if recompute.policy is Policy.OPTIMAL:
        if schedule.virtual_stages > 1:
            raise BadRequest(
                "The even split over stages that share devices is evaluated with a fixed policy.",
                field="recompute.policy",
                hint="Use none, full, selective, uniform or block.",
            )
        regimes = policy_regimes(costs, recompute)
        made = [stages_at(costs, regime.menu(costs), schedule, cuts) for regime in regimes]
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


def _lynx_stages(costs: PipelineCosts, schedule: Schedule, overlap: Overlap) -> tuple[Stage, ...]:
    """Lynx-HEU's own cuts and choices; where they do not fit, all devices have room."""
    if schedule.virtual_stages > 1 or schedule.splits_backward or costs.devices:
        raise BadRequest(
            "Lynx-HEU plans 1F1B or GPipe with one stage per device, all devices alike.",
            field="recompute.policy",
            hint="Leave schedule, virtual_stages and unlike devices out.",
        )
    stages = lynx_heu(costs, schedule, overlap) or lynx_heu(
        with_ample_memory(costs), schedule, overlap
    )
    assert stages is not None, "everything fits an ample memory"
    return stages


def _adapipe_stages(costs: PipelineCosts, schedule: Schedule) -> tuple[Stage, ...]:
    """AdaPipe's own cuts and choices; where it finds none that fit, all devices have room."""
    if schedule.virtual_stages > 1 or schedule.name != "1f1b":
        raise BadRequest(
            "AdaPipe plans 1F1B with one stage per device.",
            field="recompute.policy",
            hint="Leave schedule and virtual_stages out.",
        )
    if costs.devices:
        raise BadRequest(
            "AdaPipe plans pipelines of equal devices.",
            field="cluster.stage_devices",
            hint="Leave it out, or choose another policy.",
        )
    stages = adapipe(costs, schedule) or adapipe(with_ample_memory(costs), schedule)
    assert stages is not None, "everything fits an ample memory"
    return stages
