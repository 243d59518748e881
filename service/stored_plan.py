"""A plan of the store that succeeded, with its request, for routes that do something with it."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request

from service.context import intake_of, store_of
from service.problems import ProblemError, problem
from service.routes.plans import unknown_plan
from service.store import plans
from solver.plan import Plan, Status
from solver.request import PlanRequest


async def succeeded_plan(plan_id: str, request: Request) -> tuple[Plan, PlanRequest]:
    """A plan that succeeded, and its request.

    Raises:
        ProblemError: There is none of that id (404), or it has no stages (409).
    """
    stored = await intake_of(request).find(plan_id)
    if stored is None or stored.kind != "plan":
        raise unknown_plan(plan_id)
    if stored.answer is None or stored.status != Status.SUCCEEDED:
        raise ProblemError(
            problem(
                409,
                "no-stages",
                "There is nothing to be written",
                f"The plan is {stored.status}.",
                hint="Wait until it has succeeded, or change its request.",
            )
        )

    def asked() -> str | None:
        with store_of(request).reading() as session:
            return plans.request_of(session, plan_id)

    text = await to_thread.run_sync(asked)
    if text is None:
        raise unknown_plan(plan_id)
    return Plan.model_validate_json(stored.answer), PlanRequest.model_validate_json(text)
