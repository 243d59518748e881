"""Batches: many requests with what is expected of them, and the reports."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from service import prefer
from service.batches import desk
from service.batches.documents import BatchDocument, BatchRequest
from service.batches.junit import junit
from service.batches.summary import summary
from service.context import batch_in, caller_of, intake_of, store_of
from service.documentation import body_of, problems
from service.problems import ID, ProblemError, problem
from service.routes.strict_route import StrictRoute
from service.schema_examples import example_batch

router = APIRouter(prefix="/v1/batches", tags=["batches"], route_class=StrictRoute)

BatchId = Annotated[str, Path(description="The batch's id.", max_length=40, pattern=ID)]


@router.post(
    "",
    summary="Ask for many plans and say what is expected of them",
    status_code=202,
    responses={
        200: {"model": BatchDocument, "description": "The finished batch."},
        202: {
            "model": BatchDocument,
            "description": "Accepted; the batch will be at `Location`.",
            "headers": {"Location": {"schema": {"type": "string"}}},
        },
        **problems(400, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(BatchRequest, {"two-cases": example_batch()})
    | {"parameters": [prefer.PARAMETER]},
)
async def ask(request: Request) -> Response:
    """Accepts every case or, if one cannot be planned, none; `errors` then names each field at
    fault. The cases are solved after everything interactive; equal requests are solved once.
    """
    wait, store, caller = prefer.preferred_wait(request), store_of(request), caller_of(request)
    asked = await batch_in(request)
    batch_id = await desk.accept(intake_of(request), store, asked, caller)
    document = await desk.wait(store, batch_id, caller.visible, wait)
    headers = {"Location": f"/v1/batches/{batch_id}"} | prefer.applied(wait)
    if document.passed is None:
        return _json(document, 202, headers | {"Retry-After": "1"})
    return _json(document, 200, headers)


@router.get(
    "/{batch_id}",
    summary="Read a batch",
    responses={200: {"model": BatchDocument}, **problems(404, 422)},
    openapi_extra={"parameters": [prefer.PARAMETER]},
)
async def read(batch_id: BatchId, request: Request) -> Response:
    """Where the cases stand, and what changed since the earlier batch."""
    wait = prefer.preferred_wait(request)
    document = await found_batch(batch_id, request)
    if document.passed is None and wait > 0:
        document = await desk.wait(store_of(request), batch_id, caller_of(request).visible, wait)
    headers = prefer.applied(wait) | ({"Retry-After": "1"} if document.passed is None else {})
    return _json(document, 200, headers)


@router.get(
    "/{batch_id}/junit",
    summary="A batch as a JUnit file",
    response_class=Response,
    responses={
        200: {"content": {"application/xml": {"schema": {"type": "string"}}}},
        **problems(404, 422),
    },
)
async def junit_file(batch_id: BatchId, request: Request) -> Response:
    """A suite with a case each; pending ones are skipped."""
    return Response(junit(await found_batch(batch_id, request)), media_type="application/xml")


@router.get(
    "/{batch_id}/summary",
    summary="A batch as Markdown",
    response_class=Response,
    responses={
        200: {"content": {"text/markdown": {"schema": {"type": "string"}}}},
        **problems(404, 422),
    },
)
async def markdown(batch_id: BatchId, request: Request) -> Response:
    """What is not as expected, what changed, and every case in a table."""
    return Response(summary(await found_batch(batch_id, request)), media_type="text/markdown")


async def found_batch(batch_id: str, request: Request) -> BatchDocument:
    """The batch of that id.

    Raises:
        ProblemError: The caller has none of that id.
    """
    visible = caller_of(request).visible
    document = await to_thread.run_sync(desk.read, store_of(request), batch_id, visible)
    if document is None:
        raise ProblemError(
            problem(
                404,
                "unknown-batch",
                "No such batch",
                f"There is no batch {batch_id!r}.",
                field="batch_id",
                hint="POST the cases to /v1/batches; the answer names the batch's id.",
            )
        )
    return document


def _json(document: BatchDocument, status: int, headers: dict[str, str]) -> Response:
    text = document.model_dump_json()
    return Response(text, status_code=status, headers=headers, media_type="application/json")
