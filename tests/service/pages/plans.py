"""Plans to look at: the sample of the API page, and a pipeline of 64 stages."""

from __future__ import annotations

from service.pages.shown import ShownPlan
from service.schema_examples import sample
from solver.plan import Alternative, Plan
from solver.request import PlanRequest


def sample_plan() -> ShownPlan:
    """The solver's own answer to the sample request: two stages, eight micro-batches."""
    plan = Plan.model_validate(sample("plan"))
    return ShownPlan(
        PlanRequest.model_validate(sample("request")),
        plan.model_copy(update={"alternatives": alternatives(plan)}),
    )


def alternatives(plan: Plan) -> list[Alternative]:
    """Two layouts that lost: one solved, one only bounded."""
    assert plan.layout is not None
    seconds = plan.iteration_seconds or 1.0
    return [
        Alternative(
            layout=plan.layout.model_copy(update={"tensor_parallel": 2}),
            iteration_seconds=exact,
            lower_bound_seconds=seconds * 1.01,
            slower=0.02,
        )
        for exact in (seconds * 1.02, None)
    ]


def long_pipeline(
    devices: int = 64, micro_batches: int = 512, chunks: int = 1, **once: float
) -> ShownPlan:
    """The first stage of the sample over and over; later stages recompute less."""
    small = sample("plan")
    first = small["stages"][0]
    stages = []
    for position in range(devices * chunks):
        again = first["recompute_seconds"] * (1 - position / (devices * chunks))
        plain = first["backward_seconds"] - first["recompute_seconds"]
        stages.append(
            first
            | {
                "index": position % devices,
                "chunk": position // devices if chunks > 1 else None,
                "recompute_seconds": again,
                "backward_seconds": plain + again,
                "in_flight": min(devices - position % devices, micro_batches),
            }
            | once
        )
    layout = small["layout"] | {"pipeline_parallel": devices, "virtual_stages": chunks}
    plan = small | {"layout": layout, "stages": stages, "micro_batches": micro_batches}
    plan["pipeline_send_seconds"] = 1e-4
    found = Plan.model_validate(plan)
    return ShownPlan(
        PlanRequest.model_validate(sample("request")),
        found.model_copy(update={"alternatives": alternatives(found)}),
    )
