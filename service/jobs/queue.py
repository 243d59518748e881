"""The queue's port: carries the ids of jobs to whoever has a free hand, and knows nothing else.

The jobs table is the truth. A queue may lose an id or deliver it twice: the runner claims the row
before it works, and the sweep enqueues again whatever waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

_log = logging.getLogger(__name__)
Execute = Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class QueueStats:
    """How many jobs wait and how many are at work, as far as this queue knows."""

    queued: int
    running: int


class Queue(Protocol):
    """What carries job ids."""

    async def enqueue(self, job_id: int, priority: int) -> None:
        """Carry a job; a higher priority goes first. Twice the same id is carried once, with
        the higher priority.
        """

    async def enqueue_many(self, jobs: Sequence[tuple[int, int]]) -> None:
        """Carry many jobs, given as (id, priority)."""

    async def cancel(self, job_id: int) -> None:
        """Stop the job: forget it if it waits, cancel it if it is at work."""

    async def run(self, execute: Execute) -> None:
        """Hand jobs to ``execute`` until cancelled, which cancels those at work."""

    async def stats(self) -> QueueStats:
        """How full it is."""

    async def close(self) -> None:
        """Give back what it holds."""


class LocalQueue:
    """A queue within one process. An id that waits or is at work is not taken in again."""

    def __init__(self, hands: int) -> None:
        self._hands = hands
        self._order: asyncio.PriorityQueue[tuple[int, int]] = asyncio.PriorityQueue()
        self._waiting: dict[int, int] = {}  # to the priority
        self._running: dict[int, asyncio.Task[None]] = {}

    async def enqueue(self, job_id: int, priority: int) -> None:
        """Carry a job; a higher priority goes first."""
        known = self._waiting.get(job_id)
        if job_id not in self._running and (known is None or known < priority):
            self._waiting[job_id] = priority
            self._order.put_nowait((-priority, job_id))

    async def enqueue_many(self, jobs: Sequence[tuple[int, int]]) -> None:
        """Carry many jobs, given as (id, priority)."""
        for job_id, priority in jobs:
            await self.enqueue(job_id, priority)

    async def cancel(self, job_id: int) -> None:
        """Stop the job."""
        self._waiting.pop(job_id, None)
        if job_id in self._running:
            self._running[job_id].cancel()

    async def run(self, execute: Execute) -> None:
        """Hand jobs to ``execute`` until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._hands):
                group.create_task(self._hand(execute))

    async def stats(self) -> QueueStats:
        """How full it is."""
        return QueueStats(queued=len(self._waiting), running=len(self._running))

    async def close(self) -> None:
        """There is nothing to give back."""

    async def _hand(self, execute: Execute) -> None:
        while True:
            _, job_id = await self._order.get()
            if self._waiting.pop(job_id, None) is None:
                continue  # cancelled, or gone up and taken already
            task = asyncio.ensure_future(execute(job_id))
            self._running[job_id] = task
            try:
                await asyncio.wait([task])
                if not task.cancelled() and (error := task.exception()):
                    _log.error("Job %s could not be run", job_id, exc_info=error)
            finally:
                task.cancel()
                await asyncio.wait([task])
                del self._running[job_id]
