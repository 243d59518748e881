"""The engine room: everything that works in the background of one service or worker process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from service.jobs.hold import expire
from service.jobs.intake import Intake
from service.jobs.pool import SolverPool
from service.jobs.queue import LocalQueue, Queue
from service.jobs.runner import Runner
from service.jobs.watch import Watch
from service.retention import prune
from service.settings import Settings
from service.store import Store, jobs, workers

_SWEEP_SECONDS = 2.0
_SWEEP_LENGTH = 1000
_PRUNE_SECONDS = 3600.0
_RESTART_SECONDS = 1.0
_log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(store: Store, settings: Settings) -> AsyncIterator[Intake]:
    """Take requests in until the block ends, and work on them here if the settings say so.

    Work that is left over from an earlier process is taken up; work that is under way when the
    block ends is handed back.
    """
    queue = _queue(settings)
    watch = Watch(store)
    quick = _pool(settings, 1)
    await quick.warm()
    try:
        async with _in_background({"watch": watch.run}):
            intake = Intake(store, queue, quick, watch, settings)
            if settings.works:
                async with _working(store, queue, watch, settings):
                    yield intake
            else:
                yield intake
    finally:
        await queue.close()
        await quick.close()


async def work(store: Store, settings: Settings, ready: Callable[[], None]) -> None:
    """Work on whatever is accepted anywhere, until cancelled; calls ``ready`` once it does."""
    queue = _queue(settings)
    try:
        async with _working(store, queue, Watch(store), settings):
            ready()
            await asyncio.Event().wait()
    finally:
        await queue.close()


@asynccontextmanager
async def _working(
    store: Store, queue: Queue, watch: Watch, settings: Settings
) -> AsyncIterator[None]:
    pool = _pool(settings, settings.solver_processes)
    await pool.warm()
    name = _worker_name()
    runner = Runner(store, queue, pool, settings, watch, name)
    await to_thread.run_sync(_say_alive, store, name)
    works: dict[str, Callable[[], Awaitable[None]]] = {
        "queue": lambda: queue.run(runner.execute),
        "sweep": lambda: _sweep(store, queue, settings),
        "presence": lambda: _presence(store, name),
    }
    if settings.retention_days is not None:
        works["pruning"] = partial(_prune, store, settings.retention_days)
    try:
        async with _in_background(works):
            yield
    finally:
        await pool.close()
        with suppress(DBAPIError):
            await to_thread.run_sync(_say_gone, store, name)


async def _presence(store: Store, name: str) -> None:
    """Say again and again that this process works."""
    while True:
        await to_thread.run_sync(_say_alive, store, name)
        await asyncio.sleep(workers.SILENCE_SECONDS / 4)


def _say_alive(store: Store, name: str) -> None:
    with store.writing() as session:
        workers.seen(session, name, time.time())


def _say_gone(store: Store, name: str) -> None:
    with store.writing() as session:
        workers.gone(session, name)


@asynccontextmanager
async def _in_background(works: Mapping[str, Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    """Do all the works while the block runs."""
    tasks = [asyncio.create_task(_without_end(name, work)) for name, work in works.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _without_end(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work`` until cancelled; if it fails, say so and begin again."""
    while True:
        try:
            await work()
        except (DBAPIError, OSError) as error:
            _log.warning("The %s waits for the database: %s", name, error)
        except Exception:
            _log.exception("The %s failed and begins again", name)
        await asyncio.sleep(_RESTART_SECONDS)


async def _sweep(store: Store, queue: Queue, settings: Settings) -> None:
    """Enqueue what waits and is not carried: after a start, a crash, or a worker's silence."""
    while True:
        await to_thread.run_sync(expire, store)
        waiting = await to_thread.run_sync(_waiting, store, settings)
        await queue.enqueue_many(waiting)
        await asyncio.sleep(_SWEEP_SECONDS)


async def _prune(store: Store, days: float) -> None:
    """Remove what is older than the settings say."""
    while True:
        removed = await to_thread.run_sync(prune, store, days)
        if removed:
            _log.info("Removed %s plans that were finished %g days ago", removed, days)
        await asyncio.sleep(_PRUNE_SECONDS)


def _waiting(store: Store, settings: Settings) -> list[tuple[int, int]]:
    silent_since = time.time() - settings.heartbeat_timeout_seconds
    with store.reading() as session:
        return jobs.waiting(session, silent_since, _SWEEP_LENGTH)


def _queue(settings: Settings) -> Queue:
    if not settings.shared:
        return LocalQueue(settings.solver_processes)
    from service.jobs.pgqueuer_queue import PgQueuerQueue

    return PgQueuerQueue(
        settings.database_url, settings.solver_processes, settings.heartbeat_timeout_seconds
    )


def _pool(settings: Settings, size: int) -> SolverPool:
    return SolverPool(
        size, settings.solver_memory_bytes, settings.solver_calls_per_process, settings.planner
    )


def _worker_name() -> str:
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
