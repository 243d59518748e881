"""Puts the pages into the application."""

from __future__ import annotations

from fastapi import FastAPI

from service.pages import assets, error_pages, plan_page
from service.pages.study_page import CAPACITY, CONTINGENCY
from service.routes import (
    batch_pages,
    calibration_pages,
    pages,
    plan_pages,
    sign_in,
    study_forms,
    study_pages,
)


def install(app: FastAPI) -> None:
    """Serve the pages and what they are served with."""
    plan_page.prepare()
    error_pages.install(app)
    app.include_router(pages.router)
    app.include_router(plan_pages.router)
    app.include_router(sign_in.router)
    app.include_router(batch_pages.router)
    app.include_router(calibration_pages.router)
    app.include_router(study_pages.router)
    for kind in (CAPACITY, CONTINGENCY):
        app.include_router(study_forms.forms(kind))
    app.include_router(assets.router)
