"""Calibrations: fitted to a caller's own runs, kept by name and version."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from service import bodies, reading
from service.context import settings_of, store_of
from service.documentation import body_of, problems
from service.documents import CalibrationList
from service.jobs.fits import Fits
from service.problems import ProblemError, problem
from service.routes.strict_route import StrictRoute
from service.schema_examples import sample
from service.store import calibrations
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration

router = APIRouter(prefix="/v1/calibrations", tags=["calibrations"], route_class=StrictRoute)

CalibrationName = Annotated[str, Path(description="Its name.", max_length=100)]
CalibrationVersion = Annotated[str, Path(description="Its version.", max_length=100)]


@router.post(
    "",
    summary="Fit a calibration to measured runs",
    responses={
        200: {"model": Calibration, "description": "The same content was there already."},
        201: {"model": Calibration, "description": "Fitted and kept."},
        **problems(400, 408, 413, 415, 422, 500, 504),
    },
    openapi_extra=body_of(RunsToFit, {"three-runs": sample("runs")}),
)
async def fit(request: Request) -> Response:
    """Fit the efficiencies of a device to measured runs. Requests can name the result in
    `calibration`, and their answers carry its band.
    """
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    asked = reading.validate(RunsToFit, reading.parse(body))
    fits: Fits = request.app.state.fits
    calibration, is_new = await fits.calibrate(asked)
    location = f"/v1/calibrations/{calibration.name}/{calibration.version}"
    return Response(
        calibration.model_dump_json(),
        status_code=201 if is_new else 200,
        headers={"Location": location},
        media_type="application/json",
    )


@router.get("", summary="List calibrations", responses={**problems(422)})
async def list_calibrations(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500, description="At most so many.")] = 100,
) -> CalibrationList:
    """Calibrations, newest first."""

    def listed() -> CalibrationList:
        with store_of(request).reading() as session:
            return CalibrationList(calibrations=list(calibrations.listed(session, limit)))

    return await to_thread.run_sync(listed)


@router.get("/{name}", summary="Read the newest of a name", responses={**problems(404, 422)})
async def read_newest(name: CalibrationName, request: Request) -> Calibration:
    """The calibration that the name alone means."""
    return await found_calibration(request, name, None)


@router.get("/{name}/{version}", summary="Read a version", responses={**problems(404, 422)})
async def read_version(
    name: CalibrationName, version: CalibrationVersion, request: Request
) -> Calibration:
    """The calibration of that name and version."""
    return await found_calibration(request, name, version)


async def found_calibration(request: Request, name: str, version: str | None) -> Calibration:
    """The calibration of that name and version.

    Raises:
        ProblemError: There is none (404).
    """

    def find() -> Calibration | None:
        with store_of(request).reading() as session:
            return calibrations.find(session, name, version)

    found = await to_thread.run_sync(find)
    if found is None:
        raise ProblemError(
            problem(
                404,
                "unknown-calibration",
                "No such calibration",
                f"There is no calibration {name[:100]!r}"
                + (f" of version {version[:100]!r}." if version else "."),
                field="version" if version else "name",
                hint="GET /v1/calibrations lists them; POST measured runs there to fit one.",
            )
        )
    return found
