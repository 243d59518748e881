"""What naming the training software of a run says of the rest of the request."""

from __future__ import annotations

from solver.errors import BadRequest, IllegalLayout
from solver.request import PlanRequest, Software
from solver.workload.software import SoftwareFacts, facts_of


def as_software_runs(request: PlanRequest, *, to_plan: bool) -> PlanRequest:
    """The request with what its software decides filled in.

    Raises:
        BadRequest: The model or the target is of other software, or it does not run the layout.
    """
    software = request.training.software
    if software is None:
        return request
    facts = facts_of(software)
    _check_model(request, software, facts)
    _check_target(request, facts)
    return _with_zero_stages(request, facts, to_plan)


def _check_model(request: PlanRequest, software: Software, facts: SoftwareFacts) -> None:
    if request.model.profile is not None:
        raise BadRequest(
            "A profile states its own bytes and seconds, whatever the software.",
            field="training.software",
            hint="Leave it out.",
        )
    if request.model.megatron_args is not None and software is not Software.MEGATRON_LM:
        raise BadRequest(
            f"Megatron-LM's flags do not describe a run of {facts.title}.",
            field="training.software",
            hint="Leave it out, or give the model by name or as model.huggingface.",
        )


def _check_target(request: PlanRequest, facts: SoftwareFacts) -> None:
    target = request.target
    if target is not None and target.framework not in facts.targets:
        raise BadRequest(
            f"A plan for {target.framework} does not run under {facts.title}.",
            field="training.software",
            hint="Leave it out, or leave out target.",
        )


def _with_zero_stages(request: PlanRequest, facts: SoftwareFacts, to_plan: bool) -> PlanRequest:
    """What is open is what the software runs; in an evaluation, what it usually does.

    Nothing is sharded beyond the optimizer's states in a pipeline, whatever the software.
    """
    known = ", ".join(map(str, facts.zero_stages))
    asked = request.layout.values("zero_stage")
    if asked is not None:
        for stage in asked:
            if stage not in facts.zero_stages:
                raise IllegalLayout(
                    f"{facts.title} does not run ZeRO stage {stage}.",
                    field="layout.zero_stage",
                    hint=f"It runs {known}.",
                )
        return request
    if to_plan and facts.zero_stages == (0, 1, 2, 3):
        return request
    piped = request.layout.values("pipeline_parallel") not in (None, (1,))
    usual = min(facts.usual_zero_stage, 1) if piped else facts.usual_zero_stage
    chosen = list(facts.zero_stages) if to_plan else usual
    layout = request.layout.model_copy(update={"zero_stage": chosen})
    return request.model_copy(update={"layout": layout})
