"""Fits calibrations to measured runs, in a solver process of its own, and keeps them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread

from service.jobs.pool import SolverDied, SolverPool
from service.problems import ProblemError, problem
from service.settings import Settings
from service.store import Store, calibrations
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.request import PlanRequest


class Fits:
    """One fit at a time; it takes seconds, so a caller waits for it."""

    def __init__(self, store: Store, pool: SolverPool, seconds: float) -> None:
        self._store = store
        self._pool = pool
        self._seconds = seconds

    async def calibrate(self, asked: RunsToFit) -> tuple[Calibration, bool]:
        """The calibration, kept; and whether its content is new under its name.

        Raises:
            ProblemError: The runs cannot be fitted; nothing is stored.
        """
        try:
            outcome = await self._pool.call("calibrate", asked.model_dump_json(), self._seconds)
        except TimeoutError:
            raise ProblemError(
                problem(
                    504,
                    "solver-too-slow",
                    "The fit took too long",
                    f"There was no calibration within {self._seconds:g} s.",
                    hint="Give fewer runs, or raise STAGECUT_CALIBRATION_SECONDS.",
                )
            ) from None
        except SolverDied as death:
            raise ProblemError(
                problem(500, "solver-crashed", "The solver crashed", f"{death}.")
            ) from None
        if outcome.problem is not None:
            raise ProblemError(outcome.problem)
        assert outcome.answer is not None
        calibration = Calibration.model_validate_json(outcome.answer)
        return calibration, await to_thread.run_sync(self._keep, calibration)

    def _keep(self, calibration: Calibration) -> bool:
        with self._store.writing() as session:
            return calibrations.keep(session, calibration, time.time())


@asynccontextmanager
async def fitting(store: Store, settings: Settings) -> AsyncIterator[Fits]:
    """Fit until the block ends; the process is started by the first fit."""
    pool = SolverPool(1, settings.solver_memory_bytes, module=settings.planner)
    try:
        yield Fits(store, pool, settings.calibration_seconds)
    finally:
        await pool.close()


def with_known_calibration(request: PlanRequest, store: Store) -> PlanRequest:
    """The request with the content of the calibration that it names.

    Raises:
        ProblemError: There is none of that name and version.
    """
    asked = request.calibration
    if asked is None or asked.has_content:
        return request
    with store.reading() as session:
        found = calibrations.find(session, asked.name, asked.version)
    if found is None:
        version = f" version {asked.version!r}" if asked.version else ""
        raise ProblemError(
            problem(
                422,
                "unknown-calibration",
                "No such calibration",
                f"There is no calibration {asked.name!r}{version}.",
                field="calibration.version" if asked.version else "calibration.name",
                hint="GET /v1/calibrations lists them; POST measured runs there to fit one.",
            )
        )
    return request.model_copy(update={"calibration": found.essential()})
