"""The queue on PostgreSQL, for any number of servers and workers: PgQueuer carries the ids.

PgQueuer tells workers at once that there is something to do and lets each id be at one of them.
What it cannot reach (a database that is down, an id that was lost) the sweep makes good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from sqlalchemy import make_url

from service.jobs.queue import Execute, QueueStats

_ENTRYPOINT = "solve"
_FEWEST_TASKS = 2  # PgQueuer wants room for two batches, and a batch here is one job
_STOP_SECONDS = 5.0
_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
_log = logging.getLogger(__name__)
logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)  # what it says of outages, we say shorter


class PgQueuerQueue:
    """Carries job ids through PostgreSQL.

    Args:
        url: SQLAlchemy URL of the database.
        hands: Jobs that this process has at work at the same time.
        silence_seconds: After this a worker that says nothing counts as dead.
    """

    def __init__(self, url: str, hands: int, silence_seconds: float) -> None:
        self._dsn = _dsn(url)
        self._hands = asyncio.Semaphore(hands)
        self._tasks = max(hands, _FEWEST_TASKS)
        self._silence = timedelta(seconds=silence_seconds)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._opening = asyncio.Lock()
        self._pool: asyncpg.Pool | None = None

    async def enqueue(self, job_id: int, priority: int) -> None:
        """Carry a job; a higher priority goes first."""
        try:
            await Queries.from_asyncpg_pool(await self._connected()).enqueue(
                _ENTRYPOINT,
                _payload(job_id),
                priority,
                dedupe_key=str(job_id),
                on_conflict="update_priority",
            )
        except _UNREACHABLE as error:
            _log.warning("The queue cannot be reached: %s", error)

    async def enqueue_many(self, jobs: Sequence[tuple[int, int]]) -> None:
        """Carry many jobs, given as (id, priority); if that fails, the sweep tries again."""
        if not jobs:
            return
        try:
            await Queries.from_asyncpg_pool(await self._connected()).enqueue(
                [_ENTRYPOINT] * len(jobs),
                [_payload(job_id) for job_id, _ in jobs],
                [priority for _, priority in jobs],
                dedupe_key=[str(job_id) for job_id, _ in jobs],
                on_conflict="skip",
            )
        except _UNREACHABLE as error:
            _log.warning("The queue cannot be reached: %s", error)

    async def cancel(self, job_id: int) -> None:
        """Stop the job if it is at work here; elsewhere its heartbeat finds the row cancelled."""
        if job_id in self._running:
            self._running[job_id].cancel()

    async def run(self, execute: Execute) -> None:
        """Hand jobs to ``execute`` until cancelled; jobs at work outlive a lost connection."""
        carrier = PgQueuer.from_asyncpg_pool(await self._connected())

        @carrier.entrypoint(_ENTRYPOINT)
        async def solve(job: Job) -> None:
            await self._work(int(job.payload or b"0"), execute, carrier.shutdown)

        running = asyncio.create_task(
            carrier.run(
                batch_size=1,
                max_concurrent_tasks=self._tasks,
                heartbeat_timeout=self._silence,
                dequeue_timeout=timedelta(seconds=2),
            )
        )
        try:
            await asyncio.shield(running)
        except _UNREACHABLE as error:
            raise ConnectionError(f"PgQueuer stopped: {error}") from None
        except asyncio.CancelledError:
            carrier.shutdown.set()
            await self._stop_all()
            await asyncio.wait([running], timeout=_STOP_SECONDS)
            running.cancel()
            await self.close()
            raise

    async def stats(self) -> QueueStats:
        """How full it is, as PgQueuer counts."""
        sizes = await Queries.from_asyncpg_pool(await self._connected()).queue_size()
        queued = sum(size.count for size in sizes if size.status == "queued")
        return QueueStats(queued=queued, running=len(self._running))

    async def close(self) -> None:
        """Give the connections back."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    async def _work(self, job_id: int, execute: Execute, shutdown: asyncio.Event) -> None:
        """Work on the job; when the carrier stops, the job goes on without it."""
        if job_id in self._running:
            return
        task = asyncio.create_task(self._with_a_hand(job_id, execute))
        self._running[job_id] = task
        task.add_done_callback(lambda _: self._running.pop(job_id))
        stopped = asyncio.create_task(shutdown.wait())
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()

    async def _with_a_hand(self, job_id: int, execute: Execute) -> None:
        async with self._hands:
            try:
                await execute(job_id)
            except Exception:
                _log.exception("Job %s could not be run", job_id)

    async def _stop_all(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _connected(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(self._dsn, min_size=1, max_size=4)
        return self._pool


async def install(url: str) -> None:
    """Make PgQueuer's own tables, or bring them to its version."""
    connection = await asyncpg.connect(_dsn(url))
    try:
        queries = Queries.from_asyncpg_connection(connection)
        async with queries.schema_lock():
            if not await queries.schema_is_installed():
                await queries.install()
        await queries.upgrade()
    finally:
        await connection.close()


def _payload(job_id: int) -> bytes:
    return str(job_id).encode()


def _dsn(url: str) -> str:
    """The URL as asyncpg reads it: without the name of another driver."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
