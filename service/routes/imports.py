"""Imports: what a team runs today, beside what could; worked out as jobs."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from service import bodies, reading
from service.context import resolved, settings_of
from service.documentation import body_of, problems
from service.documents import StudyDocument
from service.importing import ImportRequest, study_of
from service.jobs.study import Study
from service.problems import ID
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.studies import accepted_study, read_study
from solver.imports.documents import ImportAnswer

router = APIRouter(prefix="/v1/imports", tags=["plans"], route_class=StrictRoute)

StudyId = Annotated[str, Path(description="The answer's id.", max_length=100, pattern=ID)]


@router.post(
    "",
    summary="Compare what runs today with what could",
    status_code=200,
    responses={
        200: {"model": ImportAnswer, "description": "The finished answer."},
        202: {"model": StudyDocument, "description": "Accepted; it will be at `Location`."},
        **problems(400, 404, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(ImportRequest, {"megatron-flags": sample("import_request")}),
)
async def ask(request: Request) -> Response:
    """A framework's configuration is read and evaluated as it is, then planned anew at the same
    parallel sizes: yours, the best for your framework, the best of all, and the lines that change.
    `Prefer: wait=SECONDS` waits for it.
    """
    return await accepted_study(request, await _study(request))


@router.get(
    "/{study_id}",
    summary="Read what came of an import",
    responses={200: {"model": ImportAnswer | StudyDocument}, **problems(404)},
)
async def read(study_id: StudyId, request: Request) -> Response:
    """The answer, or how far it is."""
    text, finished = await read_study(request, "import", study_id)
    headers = {} if finished else {"Retry-After": "1"}
    return Response(text, headers=headers, media_type="application/json")


async def _study(request: Request) -> Study:
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    asked = reading.validate(ImportRequest, reading.parse(body))
    found = await to_thread.run_sync(study_of, asked)
    today, job = await resolved(request, found.today), await resolved(request, found.job)
    whole = found.model_copy(update={"today": today, "job": job})
    return Study(request=job, of_kind="import", whole=whole)
