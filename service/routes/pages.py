"""The first page, the comparison of plans, and the guides."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from service import reading
from service.access.shelf import Shelf
from service.context import intake_of, resolved, settings_of, shelf_of
from service.jobs.intake import Asked
from service.pages import compare_page, guides, make_page
from service.pages.form import JSON_FIELD, as_text, fields_of, pasted_request, request_of
from service.pages.origin import refuse_foreign_forms
from service.pages.page_route import PageRoute
from service.pages.sent import fields_sent
from service.pages.shown import ShownPlan, shown
from service.problems import ProblemError, problem
from solver.request import PlanRequest

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_RECENT = 12
_MOST_COMPARED = 6


@router.get("/")
async def first_page(request: Request, like: str | None = None) -> Response:
    """Make a plan; recent plans. ``like`` names a plan whose request fills the form."""

    def rendered() -> Response:
        known = shelf_of(request).find(like) if like else None
        is_plan = known is not None and known[0].kind == "plan"
        asked = PlanRequest.model_validate_json(known[1]) if known and is_plan else None
        return make_page.page(_recent(shelf_of(request)), make_page.filled(asked))

    return await to_thread.run_sync(rendered)


@router.post("/", dependencies=[Depends(refuse_foreign_forms)])
async def make(request: Request) -> Response:
    """Ask for the plan of the form, and go to its page; with problems the form comes back."""
    fields = await fields_sent(request, settings_of(request).max_body_bytes)
    try:
        asked = await resolved(request, reading.validate(PlanRequest, _request_of(fields)))
        stored = await intake_of(request).plan(Asked(asked))
    except ProblemError as error:
        found = error.problem
        return await to_thread.run_sync(
            lambda: make_page.page(_recent(shelf_of(request)), fields, found)
        )
    return RedirectResponse(f"/plans/{stored.id}", status_code=303)


@router.post("/check", dependencies=[Depends(refuse_foreign_forms)])
async def check(request: Request) -> Response:
    """What is wrong so far, field by field; and the other side: the JSON, or the form's fields."""
    fields = await fields_sent(request, settings_of(request).max_body_bytes)
    said: dict[str, Any] = {"json": None, "fields": None, "problems": []}
    try:
        made = _request_of(fields)
        said |= {"json": as_text(made), "fields": fields_of(made)}
        asked = await resolved(request, reading.validate(PlanRequest, made))
        await intake_of(request).check(Asked(asked))
    except ProblemError as error:
        said["problems"] = [part.model_dump() for part in error.problem.parts]
    return JSONResponse(said)


@router.get("/compare")
async def compare(
    request: Request, ids: Annotated[list[str] | None, Query(max_length=20)] = None
) -> Response:
    """Plans side by side; ``ids`` separated by commas, or given several times."""
    wanted = [name for given in ids or [] for name in given.split(",") if name]
    wanted = list(dict.fromkeys(wanted))[:_MOST_COMPARED]

    def rendered() -> Response:
        known = {name: _answered(shelf_of(request), name) for name in wanted}
        missing = [name for name, found in known.items() if found is None]
        found = {name: plan for name, plan in known.items() if plan is not None}
        return compare_page.page(found, missing, _recent(shelf_of(request)))

    return await to_thread.run_sync(rendered)


@router.get("/guides")
async def list_guides() -> Response:
    """The guides."""
    return guides.index()


@router.get("/guides/{name}")
async def read_guide(name: str) -> Response:
    """One guide."""
    found = guides.page(name)
    if found is None:
        raise ProblemError(
            problem(404, "not-found", "Not found", "There is no such guide.", hint="See /guides.")
        )
    return found


def _request_of(fields: dict[str, str]) -> dict[str, Any]:
    """The request of the side that was written in: of the JSON, or of the form over it."""
    if fields.get("from") == JSON_FIELD:
        return pasted_request(fields.get(JSON_FIELD, "").strip())
    return request_of(fields)


def _recent(shelf: Shelf) -> list[make_page.Recent]:
    return [make_page.recent(row) for row in shelf.page(_RECENT)]


def _answered(shelf: Shelf, plan_id: str) -> ShownPlan | None:
    found = shelf.find(plan_id)
    if found is None or found[0].kind != "plan" or found[0].answer is None:
        return None
    return shown(found[1], found[0].answer)
