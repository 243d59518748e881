"""Plans: asked for, read, listed, cancelled."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from service import prefer
from service.asking import TERMS, terms_in
from service.context import asked_in, intake_of, shelf_of
from service.documentation import json_body, problems
from service.documents import PlanDocument, PlanList, PlanSummary, plan_json
from service.problems import ID, ProblemError, problem
from service.routes.strict_route import StrictRoute
from service.store.plans import Place
from solver.plan import Status
from solver.request import PlanRequest

router = APIRouter(prefix="/v1/plans", tags=["plans"], route_class=StrictRoute)

PlanId = Annotated[str, Path(description="The plan's id.", max_length=100, pattern=ID)]


@router.post(
    "",
    summary="Ask for the best plan",
    status_code=200,
    responses={
        200: {"model": PlanDocument, "description": "The finished plan."},
        202: {
            "model": PlanDocument,
            "description": "Accepted; the plan will be at `Location`.",
            "headers": {"Location": {"schema": {"type": "string"}}},
        },
        **problems(400, 404, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=json_body(PlanRequest) | {"parameters": [prefer.PARAMETER, *TERMS]},
)
async def ask(request: Request) -> Response:
    """The best plan for the request. A plan that is in the store is answered at once; otherwise
    the answer is 202 with a `Location`, or after at most `Prefer: wait=SECONDS` the plan itself.

    `priority` and `deadline` say when it is solved, not what comes of it: the plan's id does not
    depend on them. Of several who ask for the same plan the most urgent and the latest count.
    """
    wait = prefer.preferred_wait(request)
    terms = terms_in(request)
    stored = await intake_of(request).plan(await asked_in(request), wait, terms)
    headers = {"Location": f"/v1/plans/{stored.id}"} | prefer.applied(wait)
    if not stored.finished:
        headers["Retry-After"] = "1"
        return _json(plan_json(stored), 202, headers)
    return _json(plan_json(stored), 200, headers | {"ETag": etag(plan_json(stored))})


@router.get(
    "",
    summary="List plans",
    responses={200: {"model": PlanList}, **problems(422)},
)
async def list_plans(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500, description="Plans on a page.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=400, description="`next` of the page before.")
    ] = None,
    status: Annotated[Status | None, Query(description="Only plans of this status.")] = None,
) -> PlanList:
    """Plans, newest first, a page at a time."""
    after = _place(cursor) if cursor else None

    def page() -> PlanList:
        rows = shelf_of(request).page(limit + 1, after, status.value if status else None)
        shown = rows[:limit]
        more = len(rows) > limit
        return PlanList(
            plans=[PlanSummary.model_validate(row, from_attributes=True) for row in shown],
            next=_cursor(Place(shown[-1].created_at, shown[-1].id)) if more else None,
        )

    return await to_thread.run_sync(page)


@router.get(
    "/{plan_id}",
    summary="Read a plan",
    responses={
        200: {"model": PlanDocument},
        304: {"description": "Not changed since the `ETag` in `If-None-Match`."},
        **problems(404),
    },
)
async def read(plan_id: PlanId, request: Request) -> Response:
    """The plan, or how far its solve is."""
    intake = intake_of(request)
    stored = await intake.find(plan_id)
    if stored is None or stored.kind != "plan":
        raise unknown_plan(plan_id)
    progress = None if stored.finished else await intake.progress(plan_id)
    text = plan_json(stored, progress)
    headers = {"ETag": etag(text)}
    if not stored.finished:
        headers["Retry-After"] = "1"
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return _json(text, 200, headers)


@router.delete(
    "/{plan_id}",
    summary="Cancel or remove a plan",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Cancelled, or removed if it was over."}, **problems(404)},
)
async def remove(plan_id: PlanId, request: Request) -> Response:
    """Cancel the plan's solve; if there is none under way, remove the plan from the store."""
    if not await intake_of(request).remove(plan_id):
        raise unknown_plan(plan_id)
    return Response(status_code=204)


def _json(text: str, status: int, headers: dict[str, str]) -> Response:
    return Response(text, status_code=status, headers=headers, media_type="application/json")


def etag(text: str) -> str:
    """The entity tag of a document."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'


def _cursor(place: Place) -> str:
    text = json.dumps([place.created_at, place.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place(cursor: str) -> Place:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        created_at, plan_id = json.loads(text)
        if not re.fullmatch(ID, plan_id):
            raise ValueError(plan_id)
        return Place(float(created_at), plan_id)
    except (binascii.Error, ValueError, TypeError):
        raise ProblemError(
            problem(
                422,
                "bad-request",
                "A parameter does not fit",
                "This is not the cursor of a page.",
                field="cursor",
                hint="Use `next` of the page before, or leave it out for the first page.",
            )
        ) from None


def unknown_plan(plan_id: str) -> ProblemError:
    """There is no such plan (404)."""
    return ProblemError(
        problem(
            404,
            "unknown-plan",
            "No such plan",
            f"There is no plan {plan_id[:100]!r}.",
            field="plan_id",
            hint="POST the request to /v1/plans; its answer names the plan's id.",
        )
    )
