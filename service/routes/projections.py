"""Projections: a plan as another framework can run it, costed again."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.context import intake_of
from service.documentation import problems
from service.jobs.study import Study
from service.routes.exports import FrameworkName, known
from service.routes.plans import PlanId
from service.routes.strict_route import StrictRoute
from service.stored_plan import succeeded_plan
from solver.projections.documents import Projection, ProjectionRequest

router = APIRouter(
    prefix="/v1/plans/{plan_id}/projections", tags=["plans"], route_class=StrictRoute
)


@router.get(
    "/{framework}",
    summary="Project a plan onto a framework",
    responses={200: {"model": Projection}, **problems(404, 409, 422, 500, 504)},
)
async def one(plan_id: PlanId, framework: FrameworkName, request: Request) -> Response:
    """The nearest plan that the framework can be told, costed again, beside the plan itself; and
    its configuration. Where the plan was made for that framework, both are the same.
    """
    known(framework)
    plan, asked = await succeeded_plan(plan_id, request)
    whole = ProjectionRequest(job=asked, plan=plan, framework=framework)
    study = Study(request=asked, of_kind="projection", whole=whole)
    answer = await intake_of(request).quick_answer("projection", study)
    return Response(answer, media_type="application/json")
