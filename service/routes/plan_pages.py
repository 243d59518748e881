"""The page of a plan: wherever it stands, its pictures, and what can be taken away from it."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from service.access.shelf import Shelf
from service.context import intake_of, shelf_of
from service.jobs.intake import Asked
from service.pages import plan_page
from service.pages.drawings import View
from service.pages.origin import refuse_foreign_forms
from service.pages.page_route import PageRoute
from service.pages.shown import ShownPlan, shown, title
from service.pages.trace import trace
from service.problems import ID, Problem, ProblemError, problem
from service.store.plans import StoredPlan
from solver.request import PlanRequest

router = APIRouter(prefix="/plans", include_in_schema=False, route_class=PageRoute)

PlanId = Annotated[str, Path(max_length=100, pattern=ID)]
_PICTURES = {"svg": "image/svg+xml", "png": "image/png"}
_FOREVER = {"Cache-Control": "private, max-age=3600"}


def _view(
    start: Annotated[float | None, Query(alias="from", ge=0, allow_inf_nan=False)] = None,
    end: Annotated[float | None, Query(alias="to", ge=0, allow_inf_nan=False)] = None,
    critical: bool = True,
    stage: Annotated[int | None, Query(ge=0)] = None,
) -> View:
    return View(start, end, critical, stage)


ViewAsked = Annotated[View, Depends(_view)]


@router.get("/{plan_id}")
async def read(plan_id: PlanId, view: ViewAsked, request: Request) -> Response:
    """The plan, its progress, or why there is none."""

    def rendered() -> Response:
        stored, asked = _find(shelf_of(request), plan_id)
        if not stored.finished:
            return plan_page.waiting(plan_id, stored.status, title(_parsed(asked)))
        if stored.answer is None:
            failure = Problem.model_validate_json(stored.problem) if stored.problem else None
            return plan_page.without_answer(plan_id, stored.status, _parsed(asked), failure)
        return plan_page.answered(plan_id, _shown(stored, asked), view, str(request.base_url))

    return await to_thread.run_sync(rendered)


@router.get("/{plan_id}/parts/{part}")
async def part(
    plan_id: PlanId, part: Literal["timeline", "memory"], view: ViewAsked, request: Request
) -> Response:
    """A part of the page by itself, for another view of it."""
    return await to_thread.run_sync(
        lambda: plan_page.part(plan_id, _answered(shelf_of(request), plan_id), part, view)
    )


@router.get("/{plan_id}/pictures/{name}.{kind}")
async def picture(
    plan_id: PlanId, name: str, kind: Literal["svg", "png"], view: ViewAsked, request: Request
) -> Response:
    """A picture as a file."""

    def drawn() -> Response:
        content = plan_page.picture(_answered(shelf_of(request), plan_id), name, view, kind)
        if content is None:
            raise _nothing(f"There is no picture {name[:100]!r} of this plan.")
        return Response(content, media_type=_PICTURES[kind], headers=_FOREVER)

    return await to_thread.run_sync(drawn)


@router.get("/{plan_id}/trace.json")
async def trace_file(plan_id: PlanId, request: Request) -> Response:
    """The timeline for Perfetto."""

    def written() -> Response:
        found = _answered(shelf_of(request), plan_id)
        if not found.has_stages:
            raise _nothing("This plan has no timeline.")
        text = trace(found.replay, found.title)
        return _attachment(text, "application/json", f"stagecut-{plan_id[:12]}-trace.json")

    return await to_thread.run_sync(written)


@router.get("/{plan_id}/exports/{framework}")
async def export(plan_id: PlanId, framework: str, request: Request) -> Response:
    """The plan in a framework's own words, as a file."""

    def written() -> Response:
        for found in _answered(shelf_of(request), plan_id).plan.exports:
            if found.framework == framework:
                text = found.text or "\n".join(found.arguments) + "\n"
                return _attachment(text, found.media_type, found.file or f"{framework}.txt")
        raise _nothing(f"This plan has no words for {framework[:100]!r}.")

    return await to_thread.run_sync(written)


@router.get("/{plan_id}/report.html")
async def report(plan_id: PlanId, request: Request) -> Response:
    """The page as one file that needs nothing else."""

    def written() -> Response:
        text = plan_page.report(
            plan_id, _answered(shelf_of(request), plan_id), str(request.base_url)
        )
        return _attachment(text, "text/html", f"stagecut-{plan_id[:12]}.html")

    return await to_thread.run_sync(written)


@router.post("/{plan_id}/cancel", dependencies=[Depends(refuse_foreign_forms)])
async def cancel(plan_id: PlanId, request: Request) -> Response:
    """Stop a solve that is under way; a plan that is there stays."""
    intake = intake_of(request)
    stored = await intake.find(plan_id)
    if stored is not None and not stored.finished:
        await intake.remove(plan_id)
    return RedirectResponse(f"/plans/{plan_id}", status_code=303)


@router.post("/{plan_id}/again", dependencies=[Depends(refuse_foreign_forms)])
async def again(plan_id: PlanId, request: Request) -> Response:
    """Ask for a plan once more that was cancelled or failed."""
    _, asked = await to_thread.run_sync(_find, shelf_of(request), plan_id)
    await intake_of(request).plan(Asked(_parsed(asked)))
    return RedirectResponse(f"/plans/{plan_id}", status_code=303)


def _find(shelf: Shelf, plan_id: str) -> tuple[StoredPlan, str]:
    """The plan, and the request (JSON text) that it answers."""
    found = shelf.find(plan_id)
    if found is None or found[0].kind != "plan":
        raise _nothing(f"There is no plan {plan_id!r}.")
    return found


def _parsed(request: str) -> PlanRequest:
    return PlanRequest.model_validate_json(request)


def _answered(shelf: Shelf, plan_id: str) -> ShownPlan:
    stored, request = _find(shelf, plan_id)
    if stored.answer is None:
        raise _nothing(f"Plan {plan_id!r} has no answer yet.")
    return _shown(stored, request)


def _shown(stored: StoredPlan, request: str) -> ShownPlan:
    assert stored.answer is not None
    return shown(request, stored.answer)


def _attachment(text: str, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)


def _nothing(detail: str) -> ProblemError:
    return ProblemError(
        problem(404, "not-found", "Not found", detail, hint="The first page lists recent plans.")
    )
