"""What a route finds through its request: the intake, the store, the settings, the body.

These are plain calls rather than FastAPI dependencies: solving dependencies takes longer than all
the rest of answering from memory.
"""

from __future__ import annotations

from functools import lru_cache

from anyio import to_thread
from fastapi import Request

from service import bodies, reading
from service.access.caller import Caller
from service.access.counter import Counter
from service.access.gate import CALLER
from service.access.shelf import Shelf
from service.batches.documents import BatchRequest
from service.clusters import ClusterDocument, unknown_cluster, with_cluster
from service.jobs.intake import Asked
from service.settings import Settings
from service.store import Store, clusters
from solver.request import PlanRequest

_SMALL_BODY = 32 * 2**10


def settings_of(request: Request) -> Settings:
    """The settings that the service runs with."""
    settings: Settings = request.app.state.settings
    return settings


def caller_of(request: Request) -> Caller:
    """Who asks; the gate has noted it."""
    caller: Caller = request.scope[CALLER]
    return caller


def intake_of(request: Request) -> Counter:
    """Where requests for plans are taken in from the caller."""
    state = request.app.state
    return Counter(state.intake, state.store, state.settings, state.sightings, caller_of(request))


def shelf_of(request: Request) -> Shelf:
    """The stored plans that the caller sees."""
    return Shelf(request.app.state.store, caller_of(request))


def store_of(request: Request) -> Store:
    """The whole store."""
    store: Store = request.app.state.store
    return store


async def asked_in(request: Request) -> Asked:
    """The plan request that is the body.

    Raises:
        ProblemError: The body is none.
    """
    settings = settings_of(request)
    body = await bodies.read_body(request, settings.max_body_bytes, settings.body_seconds)
    asked = _read_again(body) if len(body) <= _SMALL_BODY else _read(body)
    return Asked(await resolved(request, asked.request)) if asked.request.cluster.name else asked


async def resolved(request: Request, asked: PlanRequest) -> PlanRequest:
    """The plan request with the stored cluster that it names, if any, in the name's place.

    Raises:
        ProblemError: There is no such cluster.
    """
    if asked.cluster.name is None:
        return asked
    return with_cluster(asked, await stored_cluster(request, asked.cluster.name))


async def stored_cluster(request: Request, name: str) -> ClusterDocument:
    """The cluster of that name.

    Raises:
        ProblemError: There is none.
    """

    def find() -> str | None:
        with store_of(request).reading() as session:
            return clusters.find(session, name)

    text = await to_thread.run_sync(find)
    if text is None:
        raise unknown_cluster(name)
    return ClusterDocument.model_validate_json(text)


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
