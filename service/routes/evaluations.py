"""Evaluations: time and memory of a given plan; nothing is optimised, nothing is stored."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.dependencies import AskedFor, IntakeInUse
from service.documentation import json_body, problems
from solver.plan import Evaluation
from solver.request import PlanRequest

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"])


@router.post(
    "",
    summary="Evaluate a given layout and policy",
    responses={200: {"model": Evaluation}, **problems(400, 408, 413, 415, 422, 500, 504)},
    openapi_extra=json_body(PlanRequest, evaluation=True),
)
async def evaluate(asked: AskedFor, intake: IntakeInUse) -> Response:
    """Time and memory of the layout and recompute policy that the request gives."""
    return Response(await intake.evaluate(asked), media_type="application/json")
