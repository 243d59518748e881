"""The web application: wires settings, store, engine and routes together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import FastAPI

from service import documentation, error_handlers
from service.access.counter import Sightings
from service.access.gate import Gate, GateMiddleware
from service.access.opening import ensure_a_key
from service.jobs import engine
from service.jobs.fits import fitting
from service.migrate import migrate
from service.operations.observed import Observed
from service.pages import site
from service.pages.warming import warm
from service.routes import (
    batches,
    calibrations,
    capacity,
    clusters,
    contingencies,
    devices,
    evaluations,
    expectations,
    exports,
    health,
    imports,
    models,
    placements,
    plan_events,
    plans,
    projections,
    transitions,
)
from service.settings import Settings
from service.store import Store
from service.version import VERSION


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application, with settings from the environment unless given."""
    in_use = settings or Settings()
    traced = in_use.traces_url is not None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = Store(in_use.database_url)
        try:
            if in_use.migrates_at_start:
                await to_thread.run_sync(migrate, store)
            await to_thread.run_sync(ensure_a_key, store, in_use)
            async with engine.serving(store, in_use) as intake, fitting(store, in_use) as fits:
                app.state.store = store
                app.state.fits = fits
                app.state.intake = intake
                await warm(app)
                yield
        finally:
            store.close()

    app = FastAPI(
        title="Stagecut",
        version=VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={
            "tracing": traced,
            "operation_spans": traced,
            "metrics": False,
            "logs": False,
        },
    )
    app.state.settings = in_use
    app.state.gate = Gate(in_use)
    app.state.sightings = Sightings()
    app.add_middleware(GateMiddleware, gate=app.state.gate)
    app.add_middleware(Observed)
    error_handlers.install(app)
    for route in (
        plans,
        plan_events,
        exports,
        projections,
        imports,
        expectations,
        batches,
        evaluations,
        calibrations,
        capacity,
        contingencies,
        placements,
        transitions,
        clusters,
        models,
        devices,
        health,
    ):
        app.include_router(route.router)
    documentation.install(app)
    site.install(app)
    return app
