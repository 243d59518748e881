"""Evaluations: time and memory of a given plan; nothing is optimised, nothing is stored."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.context import asked_in, intake_of
from service.documentation import json_body, problems
from service.routes.strict_route import StrictRoute
from solver.plan import Evaluation
from solver.request import PlanRequest

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"], route_class=StrictRoute)


@router.post(
    "",
    summary="Evaluate a given layout and policy",
    responses={200: {"model": Evaluation}, **problems(400, 404, 408, 413, 415, 422, 500, 504)},
    openapi_extra=json_body(PlanRequest, evaluation=True),
)
async def evaluate(request: Request) -> Response:
    """Time and memory of the layout and recompute policy that the request gives."""
    evaluation = await intake_of(request).evaluate(await asked_in(request))
    return Response(evaluation, media_type="application/json")
