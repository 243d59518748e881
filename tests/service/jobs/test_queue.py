"""The local queue: priorities, no id twice, cancellation, and hands that never tire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from service.jobs.queue import LocalQueue


async def worked_off(queue: LocalQueue, execute: Callable[[int], Awaitable[None]]) -> None:
    """Let the queue work until nothing is left."""
    work = asyncio.create_task(queue.run(execute))
    while (stats := await queue.stats()).queued or stats.running:
        await asyncio.sleep(0.001)
    work.cancel()
    await asyncio.wait([work])


def test_a_higher_priority_goes_first_and_equals_in_order() -> None:
    async def order() -> list[int]:
        queue, done = LocalQueue(1), list[int]()
        await queue.enqueue_many([(1, 0), (2, 0), (3, 10), (4, 0), (5, 10)])

        async def execute(job_id: int) -> None:
            done.append(job_id)

        await worked_off(queue, execute)
        return done

    assert asyncio.run(order()) == [3, 5, 1, 2, 4]


def test_an_id_that_waits_or_is_at_work_is_not_taken_in_again() -> None:
    async def count() -> int:
        queue, done = LocalQueue(2), list[int]()
        await queue.enqueue_many([(7, 0), (7, 0)])

        async def execute(job_id: int) -> None:
            await queue.enqueue(job_id, 0)  # as the sweep may, before the row is claimed
            await asyncio.sleep(0.01)
            done.append(job_id)

        await worked_off(queue, execute)
        return len(done)

    assert asyncio.run(count()) == 1


def test_a_job_that_fails_or_is_cancelled_leaves_the_hands_free() -> None:
    async def finished() -> list[int]:
        queue, done = LocalQueue(1), list[int]()
        await queue.enqueue_many([(1, 0), (2, 0), (3, 0), (4, 0)])

        async def execute(job_id: int) -> None:
            if job_id == 1:
                raise RuntimeError("a job that fails")
            if job_id == 2:
                asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(queue.cancel(2)))
                await asyncio.sleep(60)
            if job_id == 3:
                await queue.cancel(4)
            done.append(job_id)

        await worked_off(queue, execute)
        return done

    assert asyncio.run(finished()) == [3]


def test_cancelling_the_run_cancels_what_is_at_work_and_waits_for_it() -> None:
    async def ended() -> bool:
        queue, begun, ended = LocalQueue(1), asyncio.Event(), asyncio.Event()
        await queue.enqueue(1, 0)

        async def execute(_: int) -> None:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                ended.set()

        work = asyncio.create_task(queue.run(execute))
        await begun.wait()
        work.cancel()
        await asyncio.wait([work])
        return ended.is_set()

    assert asyncio.run(ended())
