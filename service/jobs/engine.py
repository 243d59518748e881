"""The engine room: everything that works in the background of one service or worker process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from service.jobs.completions import Completions
from service.jobs.intake import Intake
from service.jobs.pool import PLANNER, SolverPool
from service.jobs.queue import LocalQueue, Queue
from service.jobs.runner import Runner
from service.settings import Settings
from service.store import Store, jobs

_SWEEP_SECONDS = 2.0
_SWEEP_LENGTH = 1000
_RESTART_SECONDS = 1.0
_log = logging.getLogger(__name__)


@asynccontextmanager
async def running(
    store: Store, settings: Settings, planner: str = PLANNER
) -> AsyncIterator[Intake]:
    """Take requests in and work on them, in this process, until the block ends.

    Work that is left over from an earlier process is taken up; work that is under way when the
    block ends is handed back.
    """
    pool = _pool(settings, settings.solver_processes, planner)
    quick = _pool(settings, 1, planner)
    queue = LocalQueue(settings.solver_processes)
    completions = Completions(store)
    runner = Runner(store, pool, settings, completions, _worker_name())
    intake = Intake(store, queue, quick, completions, settings)
    await quick.warm()
    await pool.warm()
    tasks = [
        asyncio.create_task(_without_end("queue", lambda: queue.run(runner.execute))),
        asyncio.create_task(_without_end("sweep", lambda: _sweep(store, queue, settings))),
        asyncio.create_task(_without_end("completions", completions.run)),
    ]
    try:
        yield intake
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await pool.close()
        await quick.close()


async def _without_end(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work`` until cancelled; if it fails, say so and begin again."""
    while True:
        try:
            await work()
        except DBAPIError as error:
            _log.warning("The %s waits for the database: %s", name, error)
        except Exception:
            _log.exception("The %s failed and begins again", name)
        await asyncio.sleep(_RESTART_SECONDS)


async def _sweep(store: Store, queue: Queue, settings: Settings) -> None:
    """Enqueue what waits and is not carried: after a start, a crash, or a worker's silence."""
    while True:
        waiting = await to_thread.run_sync(_waiting, store, settings)
        await queue.enqueue_many(waiting)
        await asyncio.sleep(_SWEEP_SECONDS)


def _waiting(store: Store, settings: Settings) -> list[tuple[int, int]]:
    silent_since = time.time() - settings.heartbeat_timeout_seconds
    with store.reading() as session:
        return jobs.waiting(session, silent_since, _SWEEP_LENGTH)


def _pool(settings: Settings, size: int, planner: str) -> SolverPool:
    return SolverPool(
        size, settings.solver_memory_bytes, settings.solver_calls_per_process, planner
    )


def _worker_name() -> str:
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
