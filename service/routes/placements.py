"""Placements: a plan and free nodes in, nodes in rank order out; answered directly."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.documentation import body_of, problems
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.studies import answered
from solver.placement.documents import PlacementAnswer, PlacementRequest

router = APIRouter(prefix="/v1/placements", tags=["schedulers"], route_class=StrictRoute)


@router.post(
    "",
    summary="Place a plan on free nodes",
    responses={
        200: {"model": PlacementAnswer},
        **problems(400, 404, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(PlacementRequest, {"four-nodes": sample("placement_request")}),
)
async def ask(request: Request) -> Response:
    """Nodes in rank order that keep tensor- and expert-parallel groups in an NVLink domain and
    cross as few leafs as can be, with the proof; a score for each of the scheduler's candidates;
    and the placement in the words of Slurm, Kueue, Volcano and Open MPI.
    """
    return await answered(request, "placement", PlacementRequest)
