"""What a request may not ask of recompute, refused before anything is reckoned."""

from __future__ import annotations

from solver.errors import BadRequest
from solver.partition.policy_menu import policy_menu
from solver.partition.policy_regimes import policy_regimes
from solver.question.asked import Question
from solver.request import (
    ChoicePer,
    LayoutRequest,
    Offload,
    Overlap,
    PlanRequest,
    Policy,
    Recompute,
    ScheduleName,
)
from solver.targets.registry import target_named


def check_overlap(recompute: Recompute) -> None:
    """Refuse to place what a fixed policy recomputes.

    Raises:
        BadRequest: The policy does not choose where it recomputes.
    """
    if recompute.overlap in (None, Overlap.OFF):
        return
    if recompute.choice_per is not ChoicePer.BLOCK:
        raise BadRequest(
            "Blocks that choose alike recompute on demand.",
            field="recompute.overlap",
            hint="Leave it out, or leave recompute.choice_per out.",
        )
    if recompute.policy not in (Policy.OPTIMAL, Policy.LYNX_HEU):
        raise BadRequest(
            f"Policy '{recompute.policy.value}' recomputes on demand; it places nothing in windows "
            "or stalls.",
            field="recompute.overlap",
            hint="Leave it out, give off, or let recompute.policy be optimal.",
        )


def check_stalls(layout: LayoutRequest) -> None:
    """Refuse stalls where no schedule that is asked for has recompute in them.

    Raises:
        BadRequest: Every one makes gradients of weights apart.
    """
    schedules = layout.values("schedule")
    if schedules is not None and not set(STALLING).intersection(schedules):
        known = ", ".join(name.value for name in STALLING[:-1])
        raise BadRequest(
            f"Recompute in stalls is planned for {known} and {STALLING[-1].value}.",
            field="layout.schedule",
            hint="Ask for one of them, or for overlap communication.",
        )


STALLING = (ScheduleName.ONE_F_ONE_B, ScheduleName.GPIPE, ScheduleName.CHIMERA)
"""Schedules whose stages may recompute ahead of the gradient, with any chunks."""


def check_offload(request: PlanRequest) -> None:
    """Refuse offload where it is not planned.

    Raises:
        BadRequest: The policy or the target leaves no room for it.
    """
    recompute, target = request.recompute, request.target
    if recompute.offload is Offload.OFF:
        return
    if recompute.policy is not Policy.OPTIMAL:
        raise BadRequest(
            f"Policy '{recompute.policy.value}' keeps all that it does not recompute on the "
            "device; it offloads nothing.",
            field="recompute.offload",
            hint="Leave it out, give off, or let recompute.policy be optimal.",
        )
    if target is not None:
        raise BadRequest(
            f"{target_named(target.framework).title} cannot be told which part of which layer's "
            "tensors to offload.",
            field="recompute.offload",
            hint="Leave it out, or leave out target.",
        )


def check_policy(asked: Question) -> None:
    """Refuse at once a policy that lacks a number, or names modules that no layer has.

    Raises:
        BadRequest: The policy cannot be followed on this model.
    """
    recompute = asked.request.recompute
    if recompute.policy in _COMPLETE_POLICIES and recompute.choice_per is ChoicePer.BLOCK:
        return
    if recompute.choice_per is not ChoicePer.BLOCK and recompute.overlap not in (None, Overlap.OFF):
        raise BadRequest(
            "Recompute that hides is chosen block by block.",
            field="recompute.overlap",
            hint="Leave overlap out, or choice_per.",
        )
    if recompute.choice_per is ChoicePer.STAGE:
        _check_stages_alone(asked.request.layout)
    costs = asked.costs(asked.some_layout)
    if recompute.policy is Policy.OPTIMAL:
        policy_regimes(costs, recompute)
    else:
        policy_menu(costs, recompute)


def _check_stages_alone(layout: LayoutRequest) -> None:
    """Refuse stages that share devices where all blocks of a stage choose alike."""
    sharing = {ScheduleName.ZB_V, ScheduleName.CHIMERA}.intersection(
        layout.values("schedule") or ()
    )
    if sharing or max(layout.values("virtual_stages") or (1,)) > 1:
        raise BadRequest(
            "One choice per stage is planned with one stage per device.",
            field="recompute.choice_per",
            hint="Choose per block or per model, or leave layout.virtual_stages, zb-v and chimera "
            "out.",
        )


_COMPLETE_POLICIES = frozenset(
    {Policy.OPTIMAL, Policy.NONE, Policy.FULL, Policy.ADAPIPE, Policy.LYNX_HEU}
)
"""Policies that need nothing more than their name."""
