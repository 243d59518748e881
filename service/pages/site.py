"""Puts the pages into the application."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from service.pages import plan_page
from service.routes import batch_pages, pages, plan_pages, sign_in, study_pages


def install(app: FastAPI) -> None:
    """Serve the pages and what they are served with."""
    plan_page.prepare()
    app.include_router(pages.router)
    app.include_router(plan_pages.router)
    app.include_router(sign_in.router)
    app.include_router(batch_pages.router)
    app.include_router(study_pages.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), "static")
