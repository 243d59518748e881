"""A plan's progress as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.context import intake_of, settings_of
from service.documentation import problems
from service.documents import event_json
from service.routes.plans import PlanId, etag, unknown_plan
from service.routes.strict_route import StrictRoute
from service.store.plans import Standing

router = APIRouter(prefix="/v1/plans", tags=["plans"], route_class=StrictRoute)

_EXAMPLE = """\
id: 5f0c6a
event: progress
data: {"id":"6b1e…","status":"running","progress":{"incumbent_seconds":17.4,"bound_seconds":16.9}}

: nothing new

id: 9ad2f1
event: finished
data: {"id":"6b1e…","status":"succeeded"}

"""
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The `id` of the last event received; that event is not sent again.",
}
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get(
    "/{plan_id}/events",
    summary="Follow a plan",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events to the end of the solve.",
            "content": {
                "text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE},
            },
        },
        204: {"description": "`Last-Event-ID` is the last event: there is nothing to follow."},
        **problems(404, 422),
    },
    openapi_extra={"parameters": [_LAST_EVENT_ID]},
)
async def follow(plan_id: PlanId, request: Request) -> Response:
    """Server-sent events: `progress` now and whenever the solve gets on, `finished` at its end, a
    comment in between when nothing happens. The data of both is a `PlanEvent`: the plan's
    document without its answer, which is then at `/v1/plans/{plan_id}`.
    """
    changes = intake_of(request).changes(plan_id, settings_of(request).event_silence_seconds)
    first = await anext(changes, None)
    if first is None:
        raise unknown_plan(plan_id)
    heard = request.headers.get("last-event-id", "")
    if first.finished and _event_id(plan_id, first) == heard:
        await changes.aclose()
        return Response(status_code=204)
    return StreamingResponse(
        _events(plan_id, first, changes, heard), media_type="text/event-stream", headers=_HEADERS
    )


async def _events(
    plan_id: str, first: Standing, later: AsyncIterator[Standing | None], heard: str
) -> AsyncIterator[str]:
    if _event_id(plan_id, first) != heard:
        yield _event(plan_id, first)
    async for standing in later:
        yield ": nothing new\n\n" if standing is None else _event(plan_id, standing)


def _event(plan_id: str, standing: Standing) -> str:
    kind = "finished" if standing.finished else "progress"
    data = event_json(plan_id, standing)
    return f"id: {_event_id(plan_id, standing)}\nevent: {kind}\ndata: {data}\n\n"


def _event_id(plan_id: str, standing: Standing) -> str:
    return etag(event_json(plan_id, standing)).strip('"')
