"""Capacity curves: asked for as jobs, read point by point in no time."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from service.documentation import body_of, problems
from service.documents import StudyDocument
from service.problems import ProblemError, problem
from service.schema_examples import sample
from service.studies import accepted, read_study
from solver.capacity.documents import CapacityAnswer, CapacityRequest, Curve, Point

router = APIRouter(prefix="/v1/capacity", tags=["schedulers"])

StudyId = Annotated[
    str, Path(description="The curve's id.", max_length=100, pattern="^[0-9A-Za-z_-]+$")
]


@router.post(
    "",
    summary="Ask what a job is worth on every allocation",
    status_code=200,
    responses={
        200: {"model": CapacityAnswer, "description": "The finished curves."},
        202: {"model": StudyDocument, "description": "Accepted; the curves will be at `Location`."},
        **problems(400, 404, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(CapacityRequest, {"a-small-job": sample("capacity_request")}),
)
async def ask(request: Request) -> Response:
    """The best plan and throughput for every node count, device and placement, worked out as a job.
    `Prefer: wait=SECONDS` waits for it.
    """
    return await accepted(request, "capacity", CapacityRequest)


@router.get(
    "/{study_id}",
    summary="Read a capacity curve, or one point of it",
    responses={
        200: {"model": CapacityAnswer | Point | StudyDocument},
        **problems(404, 422),
    },
)
async def read(
    study_id: StudyId,
    request: Request,
    nodes: Annotated[
        int | None, Query(ge=1, description="Only the point of so many nodes.")
    ] = None,
    device: Annotated[
        str | None, Query(max_length=200, description="Of the curve of this device.")
    ] = None,
    placement: Annotated[
        str | None, Query(max_length=40, description="`any`, `one-leaf` or `several-leafs`.")
    ] = None,
) -> Response:
    """The curves; with `nodes` the point of that count alone, which takes milliseconds. A count
    between two points of the curve is answered with the lower one.
    """
    text, finished = await read_study(request, "capacity", study_id)
    if not finished or nodes is None:
        headers = {} if finished else {"Retry-After": "1"}
        return Response(text, headers=headers, media_type="application/json")
    point = _point(_parsed(study_id, text), nodes, device, placement)
    return Response(point.model_dump_json(), media_type="application/json")


@lru_cache(maxsize=64)
def _parsed(study_id: str, text: str) -> CapacityAnswer:  # noqa: ARG001  # the key
    return CapacityAnswer.model_validate_json(text)


def _point(answer: CapacityAnswer, nodes: int, device: str | None, placement: str | None) -> Point:
    curves: list[Curve] = [
        curve
        for curve in answer.curves
        if device in (None, curve.device) and placement in (None, curve.placement)
    ]
    points = [point for curve in curves[:1] for point in curve.points if point.nodes <= nodes]
    if not points or (curves and nodes > curves[0].points[-1].nodes):
        raise ProblemError(
            problem(
                404,
                "no-such-point",
                "The curve has no such point",
                f"There is no point of {nodes} nodes"
                + (f" of {device}." if device else ".")[0:120],
                field="nodes" if curves else "device",
                hint="Ask for a curve that reaches so far.",
            )
        )
    return points[-1]
