"""The same as ``context``, for routes that would rather declare what they need."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service.context import asked_in, intake_of, settings_of, store_of
from service.jobs.intake import Asked, Intake
from service.settings import Settings
from service.store import Store

# All of these are coroutines: FastAPI would run a plain function in a thread, for far more time.


async def _settings(request: Request) -> Settings:
    return settings_of(request)


async def _intake(request: Request) -> Intake:
    return intake_of(request)


async def _store(request: Request) -> Store:
    return store_of(request)


SettingsInUse = Annotated[Settings, Depends(_settings)]
IntakeInUse = Annotated[Intake, Depends(_intake)]
StoreInUse = Annotated[Store, Depends(_store)]
AskedFor = Annotated[Asked, Depends(asked_in)]
