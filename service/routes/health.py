"""Whether the service is up, whether it is ready, and how it does."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.context import store_of
from service.documentation import problems
from service.documents import Health
from service.operations import metrics
from service.operations.readiness import hindrance
from service.problems import ProblemError, problem
from service.version import VERSION
from solver.identity import SOLVER_VERSION

router = APIRouter(tags=["operations"])


@router.get("/healthz", summary="Whether the service is up")
async def healthz() -> Health:
    """200 while the process serves. To be asked by what would start it again."""
    return Health(status="ok", version=VERSION, solver_version=SOLVER_VERSION)


@router.get(
    "/readyz",
    summary="Whether the service is ready",
    responses={200: {"model": Health}, **problems(503)},
)
async def readyz(request: Request) -> Health:
    """200 if the database answers, has the newest schema, and some process solves; else 503 with
    what is missing. To be asked by what sends requests here.
    """
    missing = await to_thread.run_sync(hindrance, store_of(request))
    if missing is not None:
        raise ProblemError(problem(503, "not-ready", "The service is not ready", missing))
    return Health(status="ready", version=VERSION, solver_version=SOLVER_VERSION)


@router.get(
    "/metrics",
    summary="Measurements for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def measurements(request: Request) -> Response:
    """Requests, answers, solves and gaps of this process; jobs and workers of the database."""
    text = await to_thread.run_sync(metrics.page, store_of(request))
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})
