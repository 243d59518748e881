"""Solver processes: each serves one call at a time, is killed to stop it, and may die alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from service.problems import Problem

_LONGEST_LINE = 256 * 2**20
_START_SECONDS = 120.0
_log = logging.getLogger(__name__)


class SolverDied(Exception):
    """The process ended in the middle of a call."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call: an answer (JSON text), the parts of a search that was begun (JSON texts,
    with ``state``, what they are gathered with), or the problem that kept it from one.

    ``began_at``: when a process took it, seconds since 1970.
    """

    answer: str | None = None
    status: str | None = None
    iteration_seconds: float | None = None
    gap: float | None = None
    problem: Problem | None = None
    parts: tuple[str, ...] = ()
    state: str = ""
    began_at: float = 0.0


class SolverProcess:
    """One process; it is started by its first call."""

    def __init__(self, module: str, memory_bytes: int) -> None:
        self.calls = 0
        self._arguments = (module, str(memory_bytes))
        self._process: asyncio.subprocess.Process | None = None
        self._is_ready = False

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """Its process id, once it has been started."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start it, unless it runs; it imports the solver before it reads its first call."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "service.jobs.solver_process",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )

    async def ready(self) -> None:
        """Start it, unless it runs, and wait until it has imported the solver.

        Raises:
            TimeoutError: That took longer than a machine under any load should need.
            SolverDied: It ended instead.
        """
        await self.start()
        if self._is_ready:
            return
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            if not await self._process.stdout.readline():
                raise SolverDied(_last_words(await self._process.wait()))
        self._is_ready = True

    async def call(
        self, call: str, request: str, on_progress: Callable[[dict[str, Any]], None]
    ) -> Outcome:
        """Have ``request`` (JSON text) served.

        Raises:
            SolverDied: The process ended first.
        """
        await self.ready()
        self.calls += 1
        began_at = time.time()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f'{{"call":"{call}","request":{request}}}\n'.encode())
            await self._process.stdin.drain()
            while line := await self._process.stdout.readline():
                message = json.loads(line)
                if "progress" not in message:
                    return replace(_outcome(message), began_at=began_at)
                on_progress(message["progress"])
        except ConnectionError:
            pass
        raise SolverDied(_last_words(await self._process.wait()))

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def stop(self) -> None:
        """End it and wait until it and its pipes are gone."""
        self.kill()
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._process.stdout.read()
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.wait_closed()


class SolverPool:
    """At most ``size`` solver processes, kept warm between calls."""

    def __init__(
        self,
        size: int,
        memory_bytes: int,
        calls_per_process: int = 500,
        module: str = "solver.planner",
    ) -> None:
        self.size = size
        self._memory_bytes = memory_bytes
        self._calls_per_process = calls_per_process
        self._module = module
        self._slots = asyncio.Semaphore(size)
        self._free: list[SolverProcess] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Start a process ahead of its first call."""
        if not self._free:
            process = self._new()
            await process.start()
            self._free.append(process)

    async def call(
        self,
        call: str,
        request: str,
        seconds: float,
        on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> Outcome:
        """Have ``request`` (JSON text) served by a free process, waiting for one if need be.

        Cancelling the call kills its process.

        Raises:
            TimeoutError: The call took longer than ``seconds``; its process is gone.
            SolverDied: Its process ended in the middle.
        """
        async with self._slots:
            process = self._free.pop() if self._free else self._new()
            try:
                await process.ready()  # its start is not the call's time
                async with asyncio.timeout(seconds):
                    outcome = await process.call(call, request, on_progress)
            except BaseException:
                self._end(process)
                raise
            if process.alive and process.calls < self._calls_per_process:
                self._free.append(process)
            else:
                await process.stop()
            return outcome

    async def close(self) -> None:
        """End the processes that are free; those at work end with their calls' cancellation."""
        while self._free:
            await self._free.pop().stop()
        if self._ending:
            await asyncio.wait(self._ending)

    def _end(self, process: SolverProcess) -> None:
        """End it at once, and let go of it once it is gone: its call may be cancelled again."""
        process.kill()
        ending = asyncio.create_task(process.stop())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _new(self) -> SolverProcess:
        return SolverProcess(self._module, self._memory_bytes)


def _outcome(message: dict[str, Any]) -> Outcome:
    if "failure" in message:
        _log.error("A solver process failed:\n%s", message["failure"])
        last_line = message["failure"].strip().rpartition("\n")[2]
        return Outcome(
            problem=Problem(
                type="urn:stagecut:problem:solver-failed",
                title="The solver failed",
                status=500,
                detail=f"The solver met an error that it did not expect ({last_line[:200]}).",
                hint="Report it together with the request.",
            )
        )
    if "problem" in message:
        return Outcome(problem=Problem.model_validate(message["problem"]))
    if "parts" in message:
        return Outcome(parts=tuple(message["parts"]), state=message["state"])
    return Outcome(
        answer=message["answer"],
        status=message.get("status"),
        iteration_seconds=message.get("iteration_seconds"),
        gap=message.get("gap"),
    )


def _last_words(returncode: int) -> str:
    if returncode < 0:
        return f"The solver process was ended by {signal.Signals(-returncode).name}"
    return f"The solver process ended with exit status {returncode}"
