"""A search shared out: its parts are jobs of their own, which any worker takes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from anyio import to_thread
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.jobs.parts import due
from service.jobs.queue import Queue
from service.operations import traces
from service.problems import Problem, ProblemError
from service.store import Store, jobs, plans
from service.store.jobs import Claim
from service.store.tables import PlanRow
from solver.identity import SOLVER_VERSION

KIND = "part"
_LOOK_SECONDS = 0.1


class FanOut:
    """The parts of the search for one plan, from when they are queued to when all are answered.

    Whoever holds the plan's job works on the parts too, so that they get done even where nobody
    else has a free hand. A part's answer outlives the worker of the plan's job: the next one finds
    it. What is still to be done when the search is given up is cancelled. All are to be done by
    ``deadline_at`` (seconds since 1970), which makes no other parts of them.
    """

    def __init__(
        self,
        store: Store,
        queue: Queue,
        claim: Claim,
        requests: Sequence[str],
        silence: float,
        deadline_at: float,
    ) -> None:
        self._store = store
        self._queue = queue
        self._claim = claim
        self._requests = {_part_id(request): request for request in requests}
        self._silence, self._deadline_at = silence, deadline_at

    async def answers(
        self,
        execute: Callable[[int], Awaitable[None]],
        on_progress: Callable[[dict[str, Any]], None],
    ) -> list[str]:
        """The answers of all parts (JSON texts), in their order.

        Args:
            execute: Takes a job, if nobody else has, and works it out.
            on_progress: Told how far all parts are.

        Raises:
            ProblemError: A part failed, so that there is no plan.
        """
        try:
            while True:
                found, waiting = await to_thread.run_sync(self._look, on_progress)
                if len(found) == len(self._requests):
                    return [found[part] for part in self._requests]
                await self._queue.enqueue_many(waiting[1:])
                if waiting:
                    await execute(waiting[0][0])
                else:
                    await asyncio.sleep(_LOOK_SECONDS)
        except BaseException:
            await asyncio.shield(to_thread.run_sync(self._withdraw))
            raise

    async def forget(self) -> None:
        """Remove the parts: the plan is made of them."""
        await to_thread.run_sync(self._remove)

    def _look(
        self, on_progress: Callable[[dict[str, Any]], None]
    ) -> tuple[dict[str, str], list[tuple[int, int]]]:
        """The answers that are there, and the jobs (id, priority) that wait to be taken.

        Parts without an answer or a job get one.
        """
        with self._store.reading() as session:
            found = self._answered(session)
            open_ones = [part for part in self._requests if part not in found]
            told = [jobs.progress_of(session, part) for part in open_ones]
            waiting = self._waiting(session, open_ones)
            idle = [part for part in open_ones if jobs.in_flight(session, part) is None]
        if idle:
            try:
                with self._store.writing() as session:
                    waiting += self._admit(session, idle)
            except IntegrityError:  # another worker has just done the same
                return found, []
        on_progress(_together([json.loads(text) for text in told if text]))
        return found, waiting

    def _answered(self, session: Session) -> dict[str, str]:
        found = {}
        for part in self._requests:
            stored = plans.find(session, part)
            if stored is not None and stored.answer is not None:
                found[part] = stored.answer
            elif stored is not None and stored.problem is not None:
                raise ProblemError(Problem.model_validate_json(stored.problem))
        return found

    def _waiting(self, session: Session, parts: Sequence[str]) -> list[tuple[int, int]]:
        """Jobs that are queued, or whose workers have fallen silent."""
        silent_since = time.time() - self._silence
        priority = jobs.priority_of(session, self._claim.job_id)
        taken = [jobs.may_be_taken(session, part, silent_since) for part in parts]
        return [(job_id, priority) for job_id in taken if job_id is not None]

    def _admit(self, session: Session, parts: Sequence[str]) -> list[tuple[int, int]]:
        """Queue parts that have neither an answer nor a job."""
        now, priority = time.time(), jobs.priority_of(session, self._claim.job_id)
        admitted = []
        for part in parts:
            stored = plans.find(session, part)
            if stored is not None and stored.answer is not None:
                continue  # answered since it was looked at
            asked = due(self._requests[part], self._deadline_at)
            if stored is None:
                plans.add(session, self._row(part, asked, now))
            else:
                plans.ask_again(session, part, asked)
            asked_in = traces.current()
            job_id = jobs.add(session, part, priority, None, now, trace_parent=asked_in)
            admitted.append((job_id, priority))
        return admitted

    def _row(self, part: str, request: str, now: float) -> PlanRow:
        return PlanRow(
            id=part,
            kind=KIND,
            status="queued",
            request=request,
            solver_version=SOLVER_VERSION,
            model=f"part of {self._claim.plan_id}",
            created_at=now,
        )

    def _withdraw(self) -> None:
        with self._store.writing() as session:
            now = time.time()
            for part in self._requests:
                if jobs.cancel(session, part, now) is not None:
                    plans.finish(session, part, plans.Result(status="cancelled"), now)

    def _remove(self) -> None:
        with self._store.writing() as session:
            for part in self._requests:
                plans.remove(session, part)


def _part_id(request: str) -> str:
    text = f"{SOLVER_VERSION}\n{KIND}\n{request}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _together(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far a search is whose parts under way are as far as they say."""
    if not told:
        return {}
    incumbents = [each["incumbent_seconds"] for each in told]
    known = [seconds for seconds in incumbents if seconds is not None]
    return {
        "incumbent_seconds": min(known, default=None),
        "bound_seconds": min(each["bound_seconds"] for each in told),
    }
