"""Solver processes: reused, limited, killed, and alone when they die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from service.jobs.pool import SolverDied, SolverPool
from tests.service.conftest import TOY, asking
from tests.service.toy_planner import gate

T = TypeVar("T")
MEMORY = 4 * 2**30
LONG = 600.0
"""Seconds that only a hang takes."""


def request(model: str) -> str:
    return json.dumps(asking(model))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def pids(pool: SolverPool, calls: int) -> list[int | None]:
    """The process that was free before each of so many calls."""
    seen = []
    for number in range(calls):
        await pool.warm()
        seen.append(pool._free[-1].pid)
        await pool.call("plan", request(f"m{number}"), LONG)
    await pool.close()
    return seen


def test_a_process_is_kept_warm_between_calls() -> None:
    seen = run(pids(SolverPool(1, MEMORY, module=TOY), 4))
    assert len(set(seen)) == 1


def test_a_process_is_replaced_after_so_many_calls() -> None:
    seen = run(pids(SolverPool(1, MEMORY, calls_per_process=2, module=TOY), 4))
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_a_call_that_takes_too_long_ends_with_its_process() -> None:
    async def overdue() -> None:
        pool = SolverPool(1, MEMORY, module=TOY)
        await pool.warm()
        (process,) = pool._free
        with pytest.raises(TimeoutError):
            await pool.call("plan", request("sleep-600"), 0.5)
        await pool.close()
        assert not process.alive
        assert (await pool.call("plan", request("m"), LONG)).status == "succeeded"
        await pool.close()

    run(overdue())


def test_a_death_is_told_with_its_signal() -> None:
    async def crash() -> None:
        pool = SolverPool(1, MEMORY, module=TOY)
        with pytest.raises(SolverDied, match="SIGKILL"):
            await pool.call("plan", request("crash"), LONG)
        assert (await pool.call("plan", request("m"), LONG)).status == "succeeded"
        await pool.close()

    run(crash())


def test_calls_beyond_the_size_wait_their_turn(solve_log: Path) -> None:
    async def side_by_side() -> None:
        pool = SolverPool(2, MEMORY, module=TOY)
        calls = [pool.call("plan", request("until-both"), LONG) for _ in range(4)]
        all_of_them = asyncio.gather(*calls)
        while len(solve_log.read_text().split()) < 2:
            await asyncio.sleep(0.02)
        gate(solve_log, "both").touch()
        await all_of_them
        await pool.close()

    run(side_by_side())
    solvers = [line.split()[1] for line in Path(f"{solve_log}.workers").read_text().splitlines()]
    assert len(solvers) == 4
    assert len(set(solvers)) == 2


def test_progress_arrives_before_the_answer() -> None:
    async def told() -> list[dict[str, Any]]:
        pool = SolverPool(1, MEMORY, module=TOY)
        seen: list[dict[str, Any]] = []
        await pool.call("plan", request("sleep-0.2"), LONG, seen.append)
        await pool.close()
        return seen

    assert {"incumbent_seconds": 2.0, "bound_seconds": 1.0} in run(told())
