"""The forms of what schedulers ask: filled, checked as one types, sent, cancelled, asked again."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from service import reading
from service.context import intake_of, settings_of, shelf_of
from service.jobs.study import Study
from service.pages import make_page, study_page, study_start
from service.pages.form import JSON_FIELD, as_text, pasted_request
from service.pages.origin import refuse_foreign_forms
from service.pages.page_route import PageRoute
from service.pages.sent import fields_sent
from service.pages.study_form import fields_of, request_of
from service.pages.study_page import StudyKind
from service.problems import ID, Problem, ProblemError, problem
from service.studies import study_of
from solver.plan import Plan
from solver.request import PlanRequest

StudyId = Annotated[str, Path(max_length=100, pattern=ID)]
_LATEST = 40
_SOURCES = 20


def forms(kind: StudyKind) -> APIRouter:
    """The routes of a kind's forms."""
    router = APIRouter(prefix=f"/{kind.section}", include_in_schema=False, route_class=PageRoute)
    ours = [Depends(refuse_foreign_forms)]

    @router.get("")
    async def ask(request: Request, plan: str | None = None, like: str | None = None) -> Response:
        """The form, begun with a plan's job or a question asked before; the latest questions."""

        def rendered() -> Response:
            begun = _begun(kind, request, plan, like)
            fields = study_page.filled(kind, begun or study_start.from_sample(kind.kind))
            return _form(kind, request, fields, of_plan=plan if begun else None)

        return await to_thread.run_sync(rendered)

    @router.post("", dependencies=ours)
    async def send(request: Request) -> Response:
        """Ask the form's question and go to its page; with problems the form comes back."""
        fields = await fields_sent(request, settings_of(request).max_body_bytes)
        try:
            stored = await intake_of(request).plan(await _study(kind, request, fields))
        except ProblemError as error:
            found = error.problem
            return await to_thread.run_sync(lambda: _form(kind, request, fields, problem=found))
        return RedirectResponse(f"/{kind.section}/{stored.id}", status_code=303)

    @router.post("/check", dependencies=ours)
    async def check(request: Request) -> Response:
        """What is wrong so far, field by field; and the JSON, or the form's fields."""
        fields = await fields_sent(request, settings_of(request).max_body_bytes)
        said: dict[str, Any] = {"json": None, "fields": None, "problems": []}
        try:
            made = _made(kind, fields)
            said |= {"json": as_text(made), "fields": fields_of(kind.kind, made)}
            study = await study_of(request, kind.kind, reading.validate(kind.asked, made))
            await intake_of(request).quick_answer(f"check-{kind.kind}", study)
        except ProblemError as error:
            said["problems"] = [part.model_dump() for part in error.problem.parts]
        return JSONResponse(said)

    @router.post("/{study_id}/cancel", dependencies=ours)
    async def cancel(study_id: StudyId, request: Request) -> Response:
        """Stop one that is under way; an answer that is there stays."""
        intake = intake_of(request)
        stored = await intake.find(study_id)
        if stored is not None and stored.kind == kind.kind and not stored.finished:
            await intake.remove(study_id)
        return RedirectResponse(f"/{kind.section}/{study_id}", status_code=303)

    @router.post("/{study_id}/again", dependencies=ours)
    async def again(study_id: StudyId, request: Request) -> Response:
        """Ask once more what was cancelled or failed."""
        found = await to_thread.run_sync(shelf_of(request).find, study_id)
        if found is None or found[0].kind != kind.kind:
            raise ProblemError(problem(404, "not-found", "Not found", "There is no such answer."))
        whole = kind.asked.model_validate_json(found[1])
        await intake_of(request).plan(Study(whole.job, kind.kind, whole))
        return RedirectResponse(f"/{kind.section}/{study_id}", status_code=303)

    return router


def _begun(
    kind: StudyKind, request: Request, plan: str | None, like: str | None
) -> dict[str, Any] | None:
    """The question that a plan or an earlier question begins; None if there is no such one."""
    name = plan or like
    found = shelf_of(request).find(name) if name else None
    if found is None:
        return None
    stored, asked = found
    if stored.kind == kind.kind:
        return study_start.as_asked_before(kind.asked.model_validate_json(asked))
    if stored.kind != "plan":
        return None
    job = PlanRequest.model_validate_json(asked)
    answer = Plan.model_validate_json(stored.answer) if stored.answer else None
    return study_start.from_plan(kind.kind, job, answer)


def _form(
    kind: StudyKind,
    request: Request,
    fields: dict[str, str],
    *,
    of_plan: str | None = None,
    problem: Problem | None = None,
) -> Response:
    shelf = shelf_of(request)
    plans = shelf.page(_SOURCES, status="succeeded")
    return study_page.asking(
        kind,
        shelf.page(_LATEST, kind=kind.kind),
        [make_page.recent(row) for row in plans if row.device],  # not of profiles
        fields,
        of_plan=of_plan,
        problem=problem,
    )


async def _study(kind: StudyKind, request: Request, fields: dict[str, str]) -> Study:
    whole = reading.validate(kind.asked, _made(kind, fields))
    return await study_of(request, kind.kind, whole)


def _made(kind: StudyKind, fields: dict[str, str]) -> dict[str, Any]:
    """The question of the side that was written in: of the JSON, or of the form over it."""
    if fields.get("from") == JSON_FIELD:
        return pasted_request(fields.get(JSON_FIELD, "").strip())
    return request_of(kind.kind, fields)
