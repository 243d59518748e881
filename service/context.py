"""What a route finds through its request: the intake, the store, the settings, the body.

These are plain calls rather than FastAPI dependencies: solving dependencies takes longer than all
the rest of answering from memory.
"""

from __future__ import annotations

from functools import lru_cache

from anyio import to_thread
from fastapi import Request

from service import bodies, reading
from service.batches.documents import BatchRequest
from service.jobs.intake import Asked, Intake
from service.settings import Settings
from service.store import Store
from solver.request import PlanRequest

_SMALL_BODY = 32 * 2**10


def settings_of(request: Request) -> Settings:
    """The settings that the service runs with."""
    settings: Settings = request.app.state.settings
    return settings


def intake_of(request: Request) -> Intake:
    """Where requests for plans are taken in."""
    intake: Intake = request.app.state.intake
    return intake


def store_of(request: Request) -> Store:
    """The store."""
    store: Store = request.app.state.store
    return store


async def asked_in(request: Request) -> Asked:
    """The plan request that is the body.

    Raises:
        ProblemError: The body is none.
    """
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    return _read_again(body) if len(body) <= _SMALL_BODY else _read(body)


async def batch_in(request: Request) -> BatchRequest:
    """The batch that is the body.

    Raises:
        ProblemError: The body is none.
    """
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_batch_bytes, settings.body_seconds)
    return await to_thread.run_sync(lambda: reading.validate(BatchRequest, reading.parse(body)))


def _read(body: bytes) -> Asked:
    return Asked(reading.validate(PlanRequest, reading.parse(body)))


# Schedulers ask the same question again and again; its reading need not be repeated.
_read_again = lru_cache(maxsize=512)(_read)
