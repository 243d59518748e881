"""Runs jobs: takes them, has their plans solved, and writes how they ended, exactly once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from anyio import to_thread
from opentelemetry import trace
from sqlalchemy.exc import DBAPIError

from service.jobs import results
from service.jobs.fan_out import FanOut
from service.jobs.hold import Hold
from service.jobs.parts import due, gather_request, part_request
from service.jobs.pool import Outcome, SolverDied, SolverPool
from service.jobs.queue import Queue
from service.jobs.watch import Watch
from service.operations import traces
from service.operations.metrics import GAP, SOLVE_SECONDS
from service.problems import ProblemError
from service.settings import Settings
from service.store import Store, plans
from service.store.jobs import Claim
from solver.request import PlanRequest

_PATIENCE_SECONDS = 120.0
_tracer = trace.get_tracer("stagecut")
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Runner:
    """Executes jobs on behalf of one worker process."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        pool: SolverPool,
        settings: Settings,
        watch: Watch,
        worker: str,
    ) -> None:
        self._store = store
        self._queue = queue
        self._pool = pool
        self._settings = settings
        self._watch = watch
        self._worker = worker

    async def execute(self, job_id: int) -> None:
        """Run the job, and what else of its chunk waits, one after the other.

        Being cancelled hands what is not done back to the queue.
        """
        owner = f"{self._worker}/{uuid.uuid4().hex[:12]}"  # of this very attempt
        silence = self._settings.heartbeat_timeout_seconds
        hold = await to_thread.run_sync(Hold.take, self._store, job_id, owner, silence)
        try:
            for claim in hold.claims:
                await self._run(claim, hold)
            await self._settle(hold)
        except asyncio.CancelledError:
            await asyncio.shield(to_thread.run_sync(hold.hand_back))
            raise

    async def _run(self, claim: Claim, hold: Hold) -> None:
        """Solve until there is a result, the job is taken away, or its deadline passes."""
        progress: dict[str, Any] = {}
        began = time.perf_counter()
        solve = asyncio.create_task(self._solve(claim, progress))
        try:
            while hold.has(claim) and not solve.done():
                pause = max(0.0, self._settings.heartbeat_seconds - hold.silent_seconds())
                await asyncio.wait([solve], timeout=pause)
                if hold.silent_seconds() >= self._settings.heartbeat_seconds:
                    await self._settle(hold)
                    await self._beat(hold, claim, progress)
                if hold.has(claim) and hold.is_overdue(claim) and not solve.done():
                    return hold.note(claim, results.deadline_passed())
            if hold.has(claim):
                result = solve.result()
                hold.note(claim, result)
                _measure(claim, result, time.perf_counter() - began)
        except Exception:
            _log.exception("Job %s could not be run", claim.job_id)
            hold.drop(claim)
        finally:
            solve.cancel()

    async def _solve(self, claim: Claim, progress: dict[str, Any]) -> plans.Result:
        most = self._settings.max_attempts
        if claim.attempts > most:
            return results.given_up("Its worker ended each time", most)
        asked_in = traces.context(claim.trace_parent)
        attributes: dict[str, str | int] = {"stagecut.plan": claim.plan_id}
        attributes["stagecut.attempt"] = claim.attempts
        with _tracer.start_as_current_span("solve", asked_in, attributes=attributes):
            return await self._tried(claim, progress, most)

    async def _tried(self, claim: Claim, progress: dict[str, Any], most: int) -> plans.Result:
        call, request, seconds = await to_thread.run_sync(self._assignment, claim)
        reason = ""
        for attempt in range(claim.attempts, most + 1):
            try:
                outcome = await self._pool.call(call, request, seconds, progress.update)
                if outcome.parts:
                    outcome = await self._fanned_out(claim, request, outcome, seconds, progress)
                return results.result_of(outcome)
            except ProblemError as error:  # of a part
                return results.failure(error.problem)
            except TimeoutError:
                return results.too_slow(seconds)
            except SolverDied as death:
                _log.warning("Job %s, attempt %s: %s", claim.job_id, attempt, death)
                reason = str(death)
        return results.given_up(reason, most)

    async def _fanned_out(
        self,
        claim: Claim,
        request: str,
        begun: Outcome,
        seconds: float,
        progress: dict[str, Any],
    ) -> Outcome:
        """Have the parts of a search worked out by whoever has a free hand, and gather them."""
        limit = seconds - self._settings.solve_grace_seconds
        requests = [part_request(request, part, limit) for part in begun.parts]
        silence, deadline_at = self._settings.heartbeat_timeout_seconds, begun.began_at + limit
        parts = FanOut(self._store, self._queue, claim, requests, silence, deadline_at)
        answers = await parts.answers(self.execute, progress.update)
        gathered = due(gather_request(request, begun.state, answers), deadline_at)
        outcome = await self._pool.call("gather", gathered, seconds)
        await parts.forget()
        return outcome

    def _assignment(self, claim: Claim) -> tuple[str, str, float]:
        """The call, its request (JSON text), and the seconds after which its process is killed."""
        with self._store.reading() as session:
            found = plans.kind_and_request(session, claim.plan_id)
        if found is None:
            raise LookupError(f"plan {claim.plan_id} was removed")
        kind, request = found
        if kind == "plan":
            limit = PlanRequest.model_validate_json(request).solver.time_limit_seconds
        else:
            limit = float(json.loads(request)["time_limit_seconds"])
        return kind, request, limit + self._settings.solve_grace_seconds

    async def _beat(self, hold: Hold, claim: Claim, progress: dict[str, Any]) -> None:
        try:
            await to_thread.run_sync(hold.beat, claim, progress)
        except DBAPIError as error:
            _log.warning("No heartbeat, the database does not answer: %s", error)

    async def _settle(self, hold: Hold) -> None:
        for plan_id in await self._patiently(hold.settle):
            self._watch.announce(plan_id)

    async def _patiently(self, write: Callable[..., T], *arguments: object) -> T:
        """Write, trying again while the database does not answer."""
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await to_thread.run_sync(write, *arguments)
            except DBAPIError as error:
                if time.monotonic() > give_up_at:
                    raise
                _log.warning("The database does not answer, trying again: %s", error)
                await asyncio.sleep(1.0)


def _measure(claim: Claim, result: plans.Result, seconds: float) -> None:
    SOLVE_SECONDS.labels(result.status).observe(seconds)
    if result.gap is not None:
        GAP.observe(result.gap)
    _log.info(
        "Plan %s %s",
        claim.plan_id,
        result.status,
        extra={"seconds": round(seconds, 3), "attempt": claim.attempts},
    )
