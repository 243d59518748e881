"""Whether the service is up."""

from __future__ import annotations

from fastapi import APIRouter

from service.documents import Health
from service.version import VERSION
from solver.identity import SOLVER_VERSION

router = APIRouter(tags=["operations"])


@router.get("/healthz", summary="Whether the service is up")
async def healthz() -> Health:
    """200 once the service can serve."""
    return Health(status="ok", version=VERSION, solver_version=SOLVER_VERSION)
