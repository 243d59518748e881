"""Solver processes: reused, limited, killed, and alone when they die."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from service.jobs.pool import SolverDied, SolverPool
from tests.service.conftest import TOY, asking

T = TypeVar("T")
MEMORY = 4 * 2**30


def request(model: str) -> str:
    return json.dumps(asking(model))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def test_a_process_is_kept_warm_between_calls() -> None:
    async def times() -> list[float]:
        pool = SolverPool(1, MEMORY, module=TOY)
        taken = []
        for number in range(5):
            started = time.perf_counter()
            await pool.call("plan", request(f"m{number}"), 10)
            taken.append(time.perf_counter() - started)
        await pool.close()
        return taken

    first, *others = run(times())
    assert min(others) < first / 5


def test_a_process_is_replaced_after_so_many_calls() -> None:
    async def pids() -> set[int | None]:
        pool = SolverPool(1, MEMORY, calls_per_process=2, module=TOY)
        seen = set()
        for _ in range(4):
            await pool.warm()
            seen.add(pool._free[-1].pid)
            await pool.call("plan", request("m"), 10)
        await pool.close()
        return seen

    assert len(run(pids())) == 2


def test_a_call_that_takes_too_long_ends_with_its_process() -> None:
    async def overdue() -> float:
        pool = SolverPool(1, MEMORY, module=TOY)
        started = time.perf_counter()
        with pytest.raises(TimeoutError):
            await pool.call("plan", request("sleep-30"), 1.0)
        outcome = await pool.call("plan", request("m"), 10)
        assert outcome.status == "succeeded"
        await pool.close()
        return time.perf_counter() - started

    assert run(overdue()) < 25


def test_a_death_is_told_with_its_signal() -> None:
    async def crash() -> None:
        pool = SolverPool(1, MEMORY, module=TOY)
        with pytest.raises(SolverDied, match="SIGKILL"):
            await pool.call("plan", request("crash"), 10)
        assert (await pool.call("plan", request("m"), 10)).status == "succeeded"
        await pool.close()

    run(crash())


def test_calls_beyond_the_size_wait_their_turn() -> None:
    async def side_by_side() -> float:
        pool = SolverPool(2, MEMORY, module=TOY)
        await asyncio.gather(*(pool.call("plan", request(f"m{i}"), 10) for i in range(2)))
        started = time.perf_counter()
        calls = (pool.call("plan", request("sleep-0.3"), 10) for _ in range(4))
        await asyncio.gather(*calls)
        await pool.close()
        return time.perf_counter() - started

    assert 0.6 <= run(side_by_side()) < 1.1


def test_progress_arrives_before_the_answer() -> None:
    async def told() -> list[dict[str, Any]]:
        pool = SolverPool(1, MEMORY, module=TOY)
        seen: list[dict[str, Any]] = []
        await pool.call("plan", request("sleep-0.2"), 10, seen.append)
        await pool.close()
        return seen

    assert {"incumbent_seconds": 2.0, "bound_seconds": 1.0} in run(told())
