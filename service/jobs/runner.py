"""Runs jobs: claims the row, has the plan solved, and writes how it ended, exactly once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from service.jobs.pool import Outcome, SolverDied, SolverPool
from service.jobs.watch import Watch
from service.problems import Problem, problem
from service.settings import Settings
from service.store import Store, jobs, plans
from solver.request import PlanRequest

_PATIENCE_SECONDS = 120.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Runner:
    """Executes jobs on behalf of one worker process."""

    def __init__(
        self,
        store: Store,
        pool: SolverPool,
        settings: Settings,
        watch: Watch,
        worker: str,
    ) -> None:
        self._store = store
        self._pool = pool
        self._settings = settings
        self._watch = watch
        self._worker = worker

    async def execute(self, job_id: int) -> None:
        """Run the job if it may be taken. Being cancelled hands it back to the queue."""
        owner = f"{self._worker}/{uuid.uuid4().hex[:12]}"  # of this very attempt
        claim = await to_thread.run_sync(self._claim, job_id, owner)
        if claim is None:
            return
        progress: dict[str, Any] = {}
        solve = asyncio.create_task(self._solve(claim, progress))
        try:
            while not solve.done():
                await asyncio.wait([solve], timeout=self._settings.heartbeat_seconds)
                if not solve.done() and not await self._beat(claim, owner, progress):
                    return  # cancelled, or taken over by another worker
        except asyncio.CancelledError:
            await asyncio.shield(to_thread.run_sync(self._hand_back, claim, owner))
            raise
        finally:
            solve.cancel()
        await self._patiently(self._finish, claim, owner, solve.result())
        self._watch.announce(claim.plan_id)

    async def _solve(self, claim: jobs.Claim, progress: dict[str, Any]) -> plans.Result:
        if claim.attempts > self._settings.max_attempts:
            return self._given_up("Its worker ended each time")
        request, seconds = await to_thread.run_sync(self._assignment, claim)
        reason = ""
        for attempt in range(claim.attempts, self._settings.max_attempts + 1):
            try:
                async with asyncio.timeout(_remaining(claim)):
                    outcome = await self._pool.call("plan", request, seconds, progress.update)
                return _result(outcome)
            except TimeoutError:
                return _failure(_overdue(claim, seconds))
            except SolverDied as death:
                _log.warning("Job %s, attempt %s: %s", claim.job_id, attempt, death)
                reason = str(death)
        return self._given_up(reason)

    def _given_up(self, reason: str) -> plans.Result:
        return _failure(
            problem(
                500,
                "solver-crashed",
                "The solver crashed",
                f"{reason}; given up after {self._settings.max_attempts} attempts.",
                hint="Fix more of the layout or lower solver.time_limit_seconds; report it if"
                " that does not help.",
            )
        )

    def _claim(self, job_id: int, owner: str) -> jobs.Claim | None:
        now = time.time()
        silent_since = now - self._settings.heartbeat_timeout_seconds
        with self._store.writing() as session:
            claim = jobs.claim(session, job_id, owner, silent_since, now)
            if claim is not None:
                plans.set_status(session, claim.plan_id, "running")
        return claim

    def _assignment(self, claim: jobs.Claim) -> tuple[str, float]:
        """The request (JSON text), and the seconds after which its process is killed."""
        with self._store.reading() as session:
            request = plans.request_of(session, claim.plan_id)
        if request is None:
            raise LookupError(f"plan {claim.plan_id} was removed")
        limit = PlanRequest.model_validate_json(request).solver.time_limit_seconds
        return request, limit + self._settings.solve_grace_seconds

    async def _beat(self, claim: jobs.Claim, owner: str, progress: dict[str, Any]) -> bool:
        """Say that the job is at work; false if it is no longer this attempt's."""
        try:
            return await to_thread.run_sync(
                self._write_beat, claim, owner, json.dumps(progress) if progress else None
            )
        except DBAPIError as error:
            _log.warning("Job %s: no heartbeat, the database does not answer: %s", claim, error)
            return True

    def _write_beat(self, claim: jobs.Claim, owner: str, progress: str | None) -> bool:
        with self._store.writing() as session:
            return jobs.beat(session, claim.job_id, owner, progress, time.time())

    def _hand_back(self, claim: jobs.Claim, owner: str) -> None:
        with self._store.writing() as session:
            if jobs.hand_back(session, claim.job_id, owner):
                plans.set_status(session, claim.plan_id, "queued")

    def _finish(self, claim: jobs.Claim, owner: str, result: plans.Result) -> None:
        now = time.time()
        with self._store.writing() as session:
            if jobs.finish(session, claim.job_id, owner, result.status, now):
                plans.finish(session, claim.plan_id, result, now)

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


def _remaining(claim: jobs.Claim) -> float | None:
    return None if claim.deadline_at is None else claim.deadline_at - time.time()


def _result(outcome: Outcome) -> plans.Result:
    if outcome.problem is not None:
        return _failure(outcome.problem)
    assert outcome.status is not None
    return plans.Result(
        status=outcome.status,
        answer=outcome.answer,
        iteration_seconds=outcome.iteration_seconds,
        gap=outcome.gap,
    )


def _failure(problem: Problem) -> plans.Result:
    return plans.Result(status="failed", problem=problem.to_json())


def _overdue(claim: jobs.Claim, seconds: float) -> Problem:
    remaining = _remaining(claim)
    if remaining is not None and remaining <= 0:
        return problem(
            504,
            "deadline-passed",
            "The deadline passed",
            "The plan was not found before its deadline.",
            hint="Give a later deadline, or fix more of the layout.",
        )
    return problem(
        504,
        "solver-too-slow",
        "The solver did not keep its time limit",
        f"The solver was stopped after {seconds:g} s.",
        field="solver.time_limit_seconds",
        hint="Fix more of the layout, or give a longer time limit.",
    )
