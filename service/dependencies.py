"""What routes ask for by type: the intake, the store, the settings, a request that fits."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service import bodies, reading
from service.jobs.intake import Asked, Intake
from service.settings import Settings
from service.store import Store
from solver.request import PlanRequest


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _intake(request: Request) -> Intake:
    intake: Intake = request.app.state.intake
    return intake


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _asked(request: Request) -> Asked:
    settings = _settings(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    return Asked(reading.validate(PlanRequest, reading.parse(body)))


SettingsInUse = Annotated[Settings, Depends(_settings)]
IntakeInUse = Annotated[Intake, Depends(_intake)]
StoreInUse = Annotated[Store, Depends(_store)]
AskedFor = Annotated[Asked, Depends(_asked)]
