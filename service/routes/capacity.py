"""Capacity curves: asked for as jobs, read point by point in no time."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from service.documentation import body_of, problems
from service.documents import StudyDocument
from service.problems import ID, ProblemError, problem
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.studies import accepted, read_study
from solver.capacity.documents import CapacityAnswer, CapacityRequest, Curve, Point

router = APIRouter(prefix="/v1/capacity", tags=["schedulers"], route_class=StrictRoute)

StudyId = Annotated[str, Path(description="The curve's id.", max_length=100, pattern=ID)]


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
    """The curves, with `device` or `placement` those alone; with `nodes` the point of that count,
    which takes milliseconds. A count between two points of the curve is answered with the lower
    one.
    """
    text, finished = await read_study(request, "capacity", study_id)
    if not finished or (nodes, device, placement) == (None, None, None):
        headers = {} if finished else {"Retry-After": "1"}
        return Response(text, headers=headers, media_type="application/json")
    answer = _parsed(study_id, text)
    curves = _chosen(answer, device, placement)
    found: CapacityAnswer | Point = answer.model_copy(update={"curves": curves})
    if nodes is not None:
        found = point_at(curves[0], nodes)
    return Response(found.model_dump_json(), media_type="application/json")


@lru_cache(maxsize=64)
def _parsed(study_id: str, text: str) -> CapacityAnswer:  # noqa: ARG001  # the key
    return CapacityAnswer.model_validate_json(text)


def _chosen(answer: CapacityAnswer, device: str | None, placement: str | None) -> list[Curve]:
    """The curves of a device and a placement.

    Raises:
        ProblemError: There is none.
    """
    curves = answer.curves
    for name, wanted in (("device", device), ("placement", placement)):
        there = dict.fromkeys(str(getattr(curve, name)) for curve in curves)
        curves = [curve for curve in curves if wanted in (None, getattr(curve, name))]
        if not curves:
            raise _none(
                f"There is no curve of the {name} {str(wanted)[:100]!r}.",
                name,
                f"Choose {' or '.join(there)}." if there else "The job fits no allocation.",
            )
    return curves


def point_at(curve: Curve, nodes: int) -> Point:
    """The point of so many nodes, or the one below it.

    Raises:
        ProblemError: The curve does not reach so far.
    """
    first, last = curve.points[0].nodes, curve.points[-1].nodes
    if not first <= nodes <= last:
        raise _none(
            f"The curve has no point of {nodes} nodes.",
            "nodes",
            f"Ask for {first} to {last} nodes, or for a curve that reaches so far.",
        )
    return [point for point in curve.points if point.nodes <= nodes][-1]


def _none(detail: str, field: str, hint: str) -> ProblemError:
    title = "The curve has no such point"
    return ProblemError(problem(404, "no-such-point", title, detail, field=field, hint=hint))
