"""What routes ask for by type: the intake, the store, the settings, a request that fits."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import Depends, Request

from service import bodies, reading
from service.jobs.intake import Asked, Intake
from service.settings import Settings
from service.store import Store
from solver.request import PlanRequest

# All of these are coroutines: FastAPI would run a plain function in a thread, for far more time.
_SMALL_BODY = 32 * 2**10


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _intake(request: Request) -> Intake:
    intake: Intake = request.app.state.intake
    return intake


async def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _asked(request: Request) -> Asked:
    settings = await _settings(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    return _read_again(body) if len(body) <= _SMALL_BODY else _read(body)


def _read(body: bytes) -> Asked:
    return Asked(reading.validate(PlanRequest, reading.parse(body)))


# Schedulers ask the same question again and again; its reading need not be repeated.
_read_again = lru_cache(maxsize=512)(_read)


SettingsInUse = Annotated[Settings, Depends(_settings)]
IntakeInUse = Annotated[Intake, Depends(_intake)]
StoreInUse = Annotated[Store, Depends(_store)]
AskedFor = Annotated[Asked, Depends(_asked)]
