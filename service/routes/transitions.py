"""Transitions: from one plan on some nodes to another on others; answered directly."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.documentation import body_of, problems
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.studies import answered
from solver.transitions.documents import TransitionAnswer, TransitionRequest

router = APIRouter(prefix="/v1/transitions", tags=["schedulers"], route_class=StrictRoute)


@router.post(
    "",
    summary="Say what moves between two plans",
    responses={
        200: {"model": TransitionAnswer},
        **problems(400, 404, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(TransitionRequest, {"a-node-is-replaced": sample("transition_request")}),
)
async def ask(request: Request) -> Response:
    """Who takes which ranks of the new plan so that least state moves; what then moves from where
    to where, and for how long; and what must come from a checkpoint as no copy of it survives.
    """
    return await answered(request, "transition", TransitionRequest)
