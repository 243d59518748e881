"""Takes requests in: answers from the store, or accepts work and never loses it."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import cached_property

from anyio import to_thread
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service import titles
from service.jobs.fits import with_known_calibration
from service.jobs.pool import Outcome, SolverDied, SolverPool
from service.jobs.queue import Queue
from service.jobs.terms import USUAL, Terms
from service.jobs.watch import Watch
from service.operations import traces
from service.operations.metrics import ANSWERS
from service.problems import Problem, ProblemError, problem
from service.settings import Settings
from service.store import Store, jobs, plans
from service.store.plans import Standing, StoredPlan
from service.store.recent import RecentAnswers
from service.store.tables import PlanRow
from solver.identity import SOLVER_VERSION, plan_id
from solver.request import PlanRequest, canonical

_FROM_STORE, _JOINED, _ACCEPTED = map(ANSWERS.labels, ("store", "joined", "accepted"))
_LONGEST_CHUNK = 16
_FEWEST_CHUNKS = 8  # so that a few solves do not wait for one another


@dataclass(frozen=True)
class Asked:
    """A request that is well formed, and its content address."""

    request: PlanRequest

    @property
    def kind(self) -> str:
        """What kind of work it is."""
        return "plan"

    @cached_property
    def plan_id(self) -> str:
        """The id of the plan that answers it."""
        return plan_id(self.request)

    @cached_property
    def json(self) -> str:
        """The request with every default filled, as text."""
        return json.dumps(canonical(self.request), sort_keys=True, separators=(",", ":"))


class Intake:
    """Decides for every request whether there is anything to do, and sees that it is done.

    ``quick`` serves checks and evaluations, so that they need not wait for a solve to end.
    """

    def __init__(
        self,
        store: Store,
        queue: Queue,
        quick: SolverPool,
        watch: Watch,
        settings: Settings,
    ) -> None:
        self._store = store
        self._queue = queue
        self._quick = quick
        self._watch = watch
        self._settings = settings
        self._recent = RecentAnswers()
        self._accepting: dict[tuple[str, Terms], asyncio.Task[StoredPlan]] = {}

    async def plan(
        self, asked: Asked, wait_seconds: float = 0.0, terms: Terms = USUAL
    ) -> StoredPlan:
        """The plan as it stands after at most ``wait_seconds``; ``terms`` say when it is solved.

        Raises:
            ProblemError: The request cannot be planned; nothing is stored.
        """
        asked = await self.known(asked)
        stored = await self.find(asked.plan_id)
        under_way = stored is not None and not stored.finished
        if stored is not None and stored.answer is not None:
            _FROM_STORE.inc()
        else:
            (_JOINED if under_way else _ACCEPTED).inc()
            stored = await self._accepted(asked, terms, checked=under_way)
        if not stored.finished and wait_seconds > 0:
            await self._watch.wait(asked.plan_id, wait_seconds)
            stored = await self.find(asked.plan_id) or stored
        if stored.problem is not None:
            await self._refuse_if_the_callers_fault(stored)
        return stored

    async def evaluate(self, asked: Asked) -> str:
        """The evaluation (JSON text) of the plan that the request describes."""
        return await self.quick_answer("evaluate", await self.known(asked))

    async def quick_answer(self, call: str, asked: Asked) -> str:
        """What a call that needs no job answers (JSON text); nothing is stored.

        Raises:
            ProblemError: The request cannot be answered.
        """
        outcome = await self._quickly(call, asked)
        assert outcome.answer is not None
        return outcome.answer

    async def check(self, asked: Asked) -> None:
        """See whether the request could be planned; nothing is solved or stored.

        Raises:
            ProblemError: It could not.
        """
        await self._quickly("check", await self.known(asked))

    async def find(self, plan_id: str) -> StoredPlan | None:
        """The plan of that id."""
        recent = self._recent.get(plan_id)
        if recent is not None:
            return recent
        stored = await to_thread.run_sync(self._find, plan_id)
        if stored is not None:
            self._recent.put(stored)
        return stored

    async def progress(self, plan_id: str) -> str | None:
        """How far the plan's solve is (JSON text), if one is under way and has said so."""
        return await to_thread.run_sync(self._progress, plan_id)

    def changes(self, plan_id: str, silence_seconds: float) -> AsyncGenerator[Standing | None]:
        """Where the plan stands, now and whenever that changes; None after a silence."""
        return self._watch.changes(plan_id, silence_seconds)

    def stop_telling(self) -> None:
        """End every :meth:`changes`: the service is about to go."""
        self._watch.stop()

    async def remove(self, plan_id: str) -> bool:
        """Cancel the plan's solve, or remove the plan if it is over; false if there is none."""
        found, job_id = await to_thread.run_sync(self._cancel_or_remove, plan_id)
        self._recent.forget(plan_id)
        if job_id is not None:
            await self._queue.cancel(job_id)
            self._watch.announce(plan_id)
        return found

    async def accept_all(self, several: Sequence[Asked], terms: Terms, group: str) -> None:
        """Accept many small plans, which were checked; a chunk of them is one entry of the queue.

        Args:
            several: What is asked; plans that are there or on their way cost nothing.
            terms: When they are solved.
            group: A name of their own for these.
        """
        distinct = list({asked.plan_id: asked for asked in several}.values())
        length = max(1, min(_LONGEST_CHUNK, math.ceil(len(distinct) / _FEWEST_CHUNKS)))
        for start in range(0, len(distinct), length):
            together = distinct[start : start + length]
            chunk = f"{group}:{start}"
            found = await to_thread.run_sync(self._admit_together, together, terms, chunk)
            await self._queue.enqueue_many(found[:1])

    async def known(self, asked: Asked) -> Asked:
        """The same with the content of the calibration that it names."""
        named = asked.request.calibration
        if named is None or named.has_content or asked.kind != "plan":
            return asked
        return Asked(await to_thread.run_sync(with_known_calibration, asked.request, self._store))

    async def _accepted(self, asked: Asked, terms: Terms, *, checked: bool) -> StoredPlan:
        """Accept the work once, however many ask for it at the same time."""
        key = (asked.plan_id, terms)
        task = self._accepting.get(key)
        if task is None:
            task = asyncio.create_task(self._accept(asked, terms, checked))
            self._accepting[key] = task
            task.add_done_callback(lambda _: self._accepting.pop(key))
        return await asyncio.shield(task)

    async def _accept(self, asked: Asked, terms: Terms, checked: bool) -> StoredPlan:
        if not checked:
            await self._quickly("check" if asked.kind == "plan" else f"check-{asked.kind}", asked)
        stored, job = await to_thread.run_sync(self._admit, asked, terms)
        if job is not None:
            await self._queue.enqueue(*job)
        return stored

    def _admit(self, asked: Asked, terms: Terms) -> tuple[StoredPlan, tuple[int, int] | None]:
        try:
            with self._store.writing() as session:
                return _admitted(session, asked, terms)
        except IntegrityError:  # another process was faster; now the plan is there
            with self._store.writing() as session:
                return _admitted(session, asked, terms)

    def _admit_together(
        self, together: Sequence[Asked], terms: Terms, chunk: str
    ) -> list[tuple[int, int]]:
        for last_try in (False, True):
            try:
                with self._store.writing() as session:
                    found = [_admitted(session, asked, terms, chunk)[1] for asked in together]
                return [job for job in found if job is not None]
            except IntegrityError:
                if last_try:
                    raise
        raise AssertionError

    def _find(self, plan_id: str) -> StoredPlan | None:
        with self._store.reading() as session:
            return plans.find(session, plan_id)

    def _progress(self, plan_id: str) -> str | None:
        with self._store.reading() as session:
            return jobs.progress_of(session, plan_id)

    def _cancel_or_remove(self, plan_id: str) -> tuple[bool, int | None]:
        with self._store.writing() as session:
            now = time.time()
            job_id = jobs.cancel(session, plan_id, now)
            if job_id is not None:
                plans.finish(session, plan_id, plans.Result(status="cancelled"), now)
                return True, job_id
            return plans.remove(session, plan_id), None

    async def _quickly(self, call: str, asked: Asked) -> Outcome:
        seconds = self._settings.evaluation_seconds
        try:
            outcome = await self._quick.call(call, asked.json, seconds)
        except TimeoutError:
            raise ProblemError(
                problem(
                    504,
                    "solver-too-slow",
                    "The solver took too long",
                    f"There was no answer within {seconds:g} s.",
                    hint="Make the request smaller.",
                )
            ) from None
        except SolverDied as death:
            raise ProblemError(
                problem(500, "solver-crashed", "The solver crashed", f"{death}.")
            ) from None
        if outcome.problem is not None:
            raise ProblemError(outcome.problem)
        return outcome

    async def _refuse_if_the_callers_fault(self, stored: StoredPlan) -> None:
        """Turn a request that the solver refused into its problem, and forget it."""
        assert stored.problem is not None
        refusal = Problem.model_validate_json(stored.problem)
        if refusal.status < 500:
            await self.remove(stored.id)
            raise ProblemError(refusal)


def _admitted(
    session: Session, asked: Asked, terms: Terms, chunk: str | None = None
) -> tuple[StoredPlan, tuple[int, int] | None]:
    """Write the job, unless the plan is there or on its way; what is to be enqueued of it."""
    plan_id, rank, now = asked.plan_id, terms.priority.rank, time.time()
    stored = plans.find(session, plan_id)
    if stored is None:
        plans.add(session, plan_row(asked, now))
    elif stored.answer is not None:
        return stored, None
    elif jobs.in_flight(session, plan_id):
        return stored, jobs.join(session, plan_id, rank, terms.deadline_at)
    else:
        plans.set_status(session, plan_id, "queued")
    asked_in = traces.current()
    job_id = jobs.add(session, plan_id, rank, terms.deadline_at, now, chunk, asked_in)
    return StoredPlan(plan_id, "queued", None, None), (job_id, rank)


def plan_row(asked: Asked, now: float) -> PlanRow:
    """The row of a plan that is asked for the first time."""
    cluster = asked.request.cluster
    return PlanRow(
        id=asked.plan_id,
        kind=asked.kind,
        status="queued",
        request=asked.json,
        solver_version=SOLVER_VERSION,
        model=titles.model(asked.request),
        device=titles.device(asked.request),
        devices=(cluster.nodes or 1) * cluster.devices_per_node
        if cluster.devices_per_node
        else None,
        created_at=now,
    )
