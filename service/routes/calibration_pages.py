"""The pages of calibrations."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from service.context import caller_of, store_of
from service.pages import calibration_page
from service.pages.page_route import PageRoute
from service.routes.calibrations import CalibrationName, CalibrationVersion, found_calibration
from service.store import calibrations

router = APIRouter(prefix="/calibrations", include_in_schema=False, route_class=PageRoute)

_LATEST, _PLANS = 50, 20


@router.get("")
async def listing(request: Request) -> Response:
    """The latest calibrations."""

    def rendered() -> Response:
        with store_of(request).reading() as session:
            found = calibrations.listed(session, _LATEST)
        return calibration_page.listing(found)

    return await to_thread.run_sync(rendered)


@router.get("/{name}")
async def read_newest(name: CalibrationName, request: Request) -> Response:
    """The calibration that the name alone means."""
    return await _page(request, name, None)


@router.get("/{name}/{version}")
async def read(name: CalibrationName, version: CalibrationVersion, request: Request) -> Response:
    """The calibration of that name and version."""
    return await _page(request, name, version)


async def _page(request: Request, name: str, version: str | None) -> Response:
    found = await found_calibration(request, name, version)

    def rendered() -> Response:
        with store_of(request).reading() as session:
            uses = calibrations.uses(
                session, found.version or "", _PLANS, caller_of(request).visible
            )
        return calibration_page.page(found, uses)

    return await to_thread.run_sync(rendered)
