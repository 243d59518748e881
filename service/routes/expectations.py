"""What a running plan should do, what it was seen to do, and how often it should be saved."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from service import bodies, reading
from service.context import caller_of, intake_of, settings_of, store_of
from service.documentation import body_of, problems
from service.documents import ObservationList, StoredObservation
from service.jobs.study import Study
from service.routes.plans import PlanId
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.store import observations
from service.stored_plan import succeeded_plan
from solver.checkpoints.documents import CheckpointAdvice, CheckpointRequest, CheckpointTerms
from solver.expected.documents import (
    ExpectedAnswer,
    ExpectedRequest,
    ObservationAnswer,
    Observations,
    ObservedRequest,
)

router = APIRouter(prefix="/v1/plans/{plan_id}", tags=["schedulers"], route_class=StrictRoute)
Body = TypeVar("Body", bound=BaseModel)


@router.get(
    "/expected",
    summary="Say what a monitor may expect of a running plan",
    responses={200: {"model": ExpectedAnswer}, **problems(404, 409, 422, 500, 504)},
)
async def expect(plan_id: PlanId, request: Request) -> Response:
    """The iteration's seconds with their band, the passes and the memory of every stage, and the
    time and bus bandwidth of each collective.
    """
    plan, job = await succeeded_plan(plan_id, request)
    study = Study(job, "expected", ExpectedRequest.model_construct(job=job, plan=plan))
    answer = await intake_of(request).quick_answer("expected", study)
    return Response(answer, media_type="application/json")


@router.post(
    "/observations",
    summary="Say what was measured of a running plan",
    status_code=201,
    responses={
        201: {"model": ObservationAnswer, "description": "Judged and kept."},
        **problems(400, 404, 408, 409, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(Observations, {"a-slow-stage": sample("observations")}),
)
async def observe(plan_id: PlanId, request: Request) -> Response:
    """Which stage, device or link deviates from what is expected and from its like. What was
    measured is kept; its iterations are runs that a calibration can be fitted to.
    """
    measured = await _body(request, Observations)
    plan, job = await succeeded_plan(plan_id, request)
    whole = ObservedRequest.model_construct(job=job, plan=plan, measured=measured)
    text = await intake_of(request).quick_answer("observed", Study(job, "observed", whole))
    stored = StoredObservation(
        id=uuid.uuid4().hex,
        created_at=time.time(),
        measured=measured,
        answer=ObservationAnswer.model_validate_json(text),
    )
    tenant = caller_of(request).tenant

    def keep() -> None:
        with store_of(request).writing() as session:
            document = stored.model_dump_json()
            observations.keep(
                session, stored.id, plan_id, tenant, document, stored.created_at
            )  # fmt: skip

    await to_thread.run_sync(keep)
    return Response(text, status_code=201, media_type="application/json")


@router.get(
    "/observations",
    summary="Read what was measured of a running plan",
    responses={200: {"model": ObservationList}, **problems(404, 422)},
)
async def observed(
    plan_id: PlanId,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500, description="At most so many.")] = 100,
) -> ObservationList:
    """The measurements, newest first, and their iterations as the `runs` of a calibration."""
    await succeeded_plan(plan_id, request)
    tenant = caller_of(request).tenant

    def read() -> ObservationList:
        with store_of(request).reading() as session:
            texts = observations.listed(session, plan_id, tenant, limit)
        found = [StoredObservation.model_validate_json(text) for text in texts]
        runs = [{**one.answer.run, "id": one.id} for one in found if one.answer.run is not None]
        return ObservationList(observations=found, runs=runs)

    return await to_thread.run_sync(read)


@router.post(
    "/checkpoints",
    summary="Say how often a plan should write checkpoints",
    responses={
        200: {"model": CheckpointAdvice},
        **problems(400, 404, 408, 409, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(CheckpointTerms, {"a-parallel-file-system": sample("checkpoint_terms")}),
)
async def save(plan_id: PlanId, request: Request) -> Response:
    """The interval that loses least time to checkpoints and failures together, beside Young's and
    Daly's, and the plan's speed with both taken off.
    """
    terms = await _body(request, CheckpointTerms)
    plan, job = await succeeded_plan(plan_id, request)
    whole = CheckpointRequest.model_construct(job=job, plan=plan, terms=terms)
    answer = await intake_of(request).quick_answer(
        "checkpoints", Study(job, "checkpoints", whole)
    )  # fmt: skip
    return Response(answer, media_type="application/json")


async def _body(request: Request, model: type[Body]) -> Body:
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    return reading.validate(model, reading.parse(body))
