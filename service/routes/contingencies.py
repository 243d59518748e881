"""Contingencies: worked out as jobs, read for any failed node set in no time."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from service.documentation import body_of, problems
from service.documents import StudyDocument
from service.problems import ID, ProblemError, from_stagecut_error
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.studies import accepted, read_study
from solver.contingencies.documents import ContingencyAnswer, ContingencyRequest, Covered
from solver.contingencies.lookup import Lookup
from solver.errors import StagecutError

router = APIRouter(prefix="/v1/contingencies", tags=["schedulers"], route_class=StrictRoute)

StudyId = Annotated[str, Path(description="The answer's id.", max_length=100, pattern=ID)]


@router.post(
    "",
    summary="Work out what to do when nodes of a running plan fail",
    status_code=200,
    responses={
        200: {"model": ContingencyAnswer, "description": "The finished answer."},
        202: {"model": StudyDocument, "description": "Accepted; it will be at `Location`."},
        **problems(400, 404, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(ContingencyRequest, {"four-nodes": sample("contingency_request")}),
)
async def ask(request: Request) -> Response:
    """For every failure of up to `most_failed` nodes, and of whole leafs, stages and replicas: what
    can be done, what the run is then worth, what going there costs, and how long an outage must
    last for it to be better than waiting. `Prefer: wait=SECONDS` waits for it.
    """
    return await accepted(request, "contingency", ContingencyRequest)


@router.get(
    "/{study_id}",
    summary="Read contingencies, or those of a failed node set",
    responses={
        200: {"model": ContingencyAnswer | Covered | StudyDocument},
        **problems(404, 422),
    },
)
async def read(
    study_id: StudyId,
    request: Request,
    failed: Annotated[
        list[str] | None,
        Query(max_length=4096, description="A node that failed; repeat it for several."),
    ] = None,
) -> Response:
    """The whole answer; with `failed` what to do about those nodes alone, which takes milliseconds.
    Node sets larger than were covered one by one are answered by what is left of the run.
    """
    text, finished = await read_study(request, "contingency", study_id)
    if not finished or not failed:
        headers = {} if finished else {"Retry-After": "1"}
        return Response(text, headers=headers, media_type="application/json")
    try:
        covered = _lookup(study_id, text).covered(failed)
    except StagecutError as error:
        raise ProblemError(from_stagecut_error(error)) from None
    return Response(covered.model_dump_json(), media_type="application/json")


@lru_cache(maxsize=64)
def _lookup(study_id: str, text: str) -> Lookup:  # noqa: ARG001  # the key
    return Lookup(json.loads(text))
