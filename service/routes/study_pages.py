"""The pages of what schedulers ask: capacity curves and contingencies."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response

from service import titles
from service.access.shelf import Shelf
from service.context import intake_of, shelf_of
from service.pages import capacity_page, contingency_page, study_page
from service.pages.page_route import PageRoute
from service.pages.pictures.capacity import capacity
from service.pages.raster import png
from service.pages.shown import title
from service.pages.study_page import CAPACITY, CONTINGENCY, StudyKind
from service.problems import ID, Problem, ProblemError, problem
from service.store.plans import StoredPlan
from solver.capacity.documents import CapacityAnswer, CapacityRequest
from solver.contingencies.documents import ContingencyAnswer, ContingencyRequest

router = APIRouter(include_in_schema=False, route_class=PageRoute)

StudyId = Annotated[str, Path(max_length=100, pattern=ID)]
_PICTURES = {"svg": "image/svg+xml", "png": "image/png"}


@router.get("/capacity/{study_id}")
async def capacity_curve(study_id: StudyId, request: Request) -> Response:
    """A capacity curve, or how far it is."""
    progress = await intake_of(request).progress(study_id)

    def rendered() -> Response:
        shelf = shelf_of(request)
        stored, asked = _find(shelf, CAPACITY, study_id)
        heading = titles.model(CapacityRequest.model_validate_json(asked).job)
        if stored.answer is None:
            return _unanswered(CAPACITY, stored, heading, progress)
        answer = CapacityAnswer.model_validate_json(stored.answer)
        planned = shelf.known(capacity_page.plan_ids(answer))
        return capacity_page.page(study_id, heading, answer, planned)

    return await to_thread.run_sync(rendered)


@router.get("/capacity/{study_id}/picture.{kind}")
async def capacity_picture(
    study_id: StudyId, kind: Literal["svg", "png"], request: Request
) -> Response:
    """The curve as a file."""

    def drawn() -> Response:
        stored, asked = _find(shelf_of(request), CAPACITY, study_id)
        if stored.answer is None:
            raise _nothing(CAPACITY, study_id)
        heading = titles.model(CapacityRequest.model_validate_json(asked).job)
        answer = CapacityAnswer.model_validate_json(stored.answer)
        svg = capacity(answer.curves).standalone(heading)
        return Response(png(svg) if kind == "png" else svg, media_type=_PICTURES[kind])

    return await to_thread.run_sync(drawn)


@router.get("/contingencies/{study_id}")
async def contingency(study_id: StudyId, request: Request) -> Response:
    """What to do when nodes fail, or how far that is."""
    progress = await intake_of(request).progress(study_id)

    def rendered() -> Response:
        shelf = shelf_of(request)
        stored, asked = _find(shelf, CONTINGENCY, study_id)
        heading = title(ContingencyRequest.model_validate_json(asked).job)
        if stored.answer is None:
            return _unanswered(CONTINGENCY, stored, heading, progress)
        answer = ContingencyAnswer.model_validate_json(stored.answer)
        planned = shelf.known(contingency_page.plan_ids(answer))
        return contingency_page.page(study_id, heading, answer, planned)

    return await to_thread.run_sync(rendered)


def _find(shelf: Shelf, kind: StudyKind, study_id: str) -> tuple[StoredPlan, str]:
    """What is stored, and the request (JSON text) that it answers."""
    found = shelf.find(study_id)
    if found is None or found[0].kind != kind.kind:
        raise _nothing(kind, study_id)
    return found


def _unanswered(
    kind: StudyKind, stored: StoredPlan, heading: str, progress: str | None
) -> Response:
    failure = Problem.model_validate_json(stored.problem) if stored.problem else None
    return study_page.unanswered(kind, stored.id, heading, stored.status, failure, progress)


def _nothing(kind: StudyKind, study_id: str) -> ProblemError:
    detail = f"There is no answer {study_id!r} of this kind."
    hint = f"The page /{kind.section} lists the latest."
    return ProblemError(problem(404, "not-found", "Not found", detail, hint=hint))
