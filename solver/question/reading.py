"""The question behind a request: the layouts to consider, and the costs of each.

Every form of model ends here as the same thing, so that planning and evaluating need not know them.
"""

from __future__ import annotations

from dataclasses import replace

from solver.errors import BadRequest, IllegalLayout
from solver.layouts import Layout, listed
from solver.layouts.completions import singles
from solver.question.asked import Question
from solver.question.checks import check_offload, check_overlap, check_policy, check_stalls
from solver.question.of_architecture import of_architecture, of_megatron
from solver.question.of_framework import further_layouts
from solver.question.of_profile import of_profile, refuse_calibration
from solver.question.of_software import as_software_runs
from solver.request import (
    Granularity,
    Model,
    Overlap,
    PlanRequest,
    Policy,
)
from solver.targets.layers import layer_count
from solver.targets.registry import target_named
from solver.targets.target import Target
from solver.workload.architecture import Architecture
from solver.workload.catalogue import architecture
from solver.workload.huggingface import architecture_from_huggingface


def question(request: PlanRequest, *, to_plan: bool = False, beyond_devices: int = 0) -> Question:
    """Read a request, to evaluate the one layout that it means or to plan over all it admits.

    ``beyond_devices``: layouts that need no more devices than that are left out of a plan, be it
    all of them, unless devices are in pools.

    Raises:
        BadRequest: Something in it cannot be read, is missing, or breaks a rule (and subclasses).
    """
    check_overlap(request.recompute)
    check_offload(request)
    request = as_software_runs(request, to_plan=to_plan)
    if request.recompute.overlap is Overlap.STALLS:
        check_stalls(request.layout)
    if request.target is None:
        asked = _of_model(request, to_plan, beyond_devices)
    else:
        target = target_named(request.target.framework)
        asked = _for_target(request, target, to_plan, beyond_devices)
        if request.recompute.overlap is None and request.recompute.policy is Policy.OPTIMAL:
            stalls = asked.request.recompute.overlap is Overlap.STALLS
            note = _ahead(target) if stalls else _on_demand(target)
            asked = replace(asked, notes=[*asked.notes, note])
    if asked.families or asked.layouts:
        check_policy(asked)
        check_offload(asked.request)  # flags may have filled in a policy
    if request.recompute.overlap in (None, Overlap.OFF) or request.target is not None:
        return asked
    return replace(asked, notes=[*asked.notes, _HIDES])


_HIDES = (
    "Recompute hides where recompute.overlap says. Frameworks as they come recompute on demand, so "
    "running this takes one that places recompute itself; the baseline no-overlap is the best plan "
    "without. Stages that share devices use windows of a block's own backward only, and so do "
    "schedules that make gradients of weights apart, which have no recompute in stalls either."
)


def _ahead(target: Target) -> str:
    """That a plan for a framework may hide recompute."""
    return (
        f"recompute.overlap is stalls: {target.title} {target.places_recompute}; {target.stalls}."
    )


def _on_demand(target: Target) -> str:
    """Why a plan for a framework hides no recompute."""
    return f"recompute.overlap is off: {target.title} {target.places_recompute}."


def _for_target(
    request: PlanRequest, target: Target, to_plan: bool, beyond_devices: int
) -> Question:
    """The question with only those layouts that a framework runs.

    Raises:
        BadRequest: It runs none of them; the error names what to change.
    """
    if request.solver.granularity is not Granularity.LAYER:
        raise BadRequest(
            f"{target.title} cannot cut a layer in two.",
            field="solver.granularity",
            hint="Leave it out, or leave out target.",
        )
    stalls = request.recompute.overlap is Overlap.STALLS and target.stalls
    if request.recompute.overlap not in (None, Overlap.OFF) and not stalls:
        raise BadRequest(
            f"{target.title} {target.places_recompute}.",
            field="recompute.overlap",
            hint="Leave it out, or leave out target.",
        )
    if request.training.overlap_expert_parallel and not target.overlaps_exchange:
        raise BadRequest(
            f"{target.title} exchanges experts' tokens with nothing beside it.",
            field="training.overlap_expert_parallel",
            hint="Leave it out, or leave out target.",
        )
    layout = request.layout
    open_fields = {k: v for k, v in target.defaults.items() if getattr(layout, k) is None}
    filled = request.model_copy(update={"layout": layout.model_copy(update=open_fields)})
    asked, found = _usual_layouts(filled)
    legal = tuple(layout for layout in found if target.refusal(layout) is None)
    if not legal:
        refusal = target.refusal(found[0])
        assert refusal is not None, "no layout is legal"
        raise IllegalLayout(
            refusal.detail,
            field=f"layout.{refusal.field}",
            hint=f"Nearest legal value: {refusal.nearest}.",
        )
    hiding = _hiding_as_it_can(asked, target, legal)
    if not to_plan:
        return replace(asked, layouts=legal, target=target)
    legal += further_layouts(filled, target, asked, lambda one: _usual_layouts(one)[1])
    legal = tuple(layout for layout in legal if layout.devices > beyond_devices)
    counts = [asked.costs(layout).micro_batches for layout in legal]
    return replace(hiding, layouts=(), families=listed(legal, counts), target=target)


def _hiding_as_it_can(asked: Question, target: Target, layouts: tuple[Layout, ...]) -> Question:
    """Where a request leaves it open, recompute may hide wherever its framework can hide any.

    Raises:
        BadRequest: It asks for stalls, and the framework recomputes in none under these layouts.
    """
    recompute = asked.request.recompute
    ahead = False
    if target.stalls:
        layers = layer_count(asked.costs(layouts[0]))
        ahead = any(target.recomputes_ahead(layout, layers) for layout in layouts)
    if recompute.overlap is Overlap.STALLS and not ahead:
        raise BadRequest(
            f"{target.title} {target.places_recompute}.",
            field="recompute.overlap",
            hint="Leave it out, or let layout.virtual_stages leave one layer to each chunk.",
        )
    if recompute.overlap is not None or not ahead or recompute.policy is not Policy.OPTIMAL:
        return asked
    stalls = recompute.model_copy(update={"overlap": Overlap.STALLS})
    return replace(asked, request=asked.request.model_copy(update={"recompute": stalls}))


def _usual_layouts(request: PlanRequest) -> tuple[Question, tuple[Layout, ...]]:
    """The layouts of an evaluation, for every combination of listed values.

    Raises:
        BadRequest: None is legal; the error is the first one's.
    """
    asked: Question | None = None
    found: dict[Layout, None] = {}
    refused: IllegalLayout | None = None
    for layout in singles(request.layout):
        try:
            asked = _of_model(request.model_copy(update={"layout": layout}), to_plan=False)
        except IllegalLayout as error:
            refused = refused or error
        else:
            found |= dict.fromkeys(asked.layouts)
    if asked is None:
        assert refused is not None, "a request has at least one combination of values"
        raise refused
    return asked, tuple(found)


def _of_model(request: PlanRequest, to_plan: bool, beyond_devices: int = 0) -> Question:
    if request.model.profile is not None:
        refuse_calibration(request)
        return of_profile(request, request.model.profile, to_plan)
    if request.model.megatron_args is not None:
        return of_megatron(request, request.model.megatron_args, to_plan, beyond_devices)
    return of_architecture(request, _architecture(request.model), to_plan, beyond_devices)


def _architecture(model: Model) -> Architecture:
    if model.name is not None:
        return architecture(model.name)
    assert model.huggingface is not None, "exactly one form of model is given"
    return architecture_from_huggingface(model.huggingface)
