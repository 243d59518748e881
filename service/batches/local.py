"""A batch without a server: solved in processes of its own, beside a store if one is named."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from service.batches import refusals
from service.batches.documents import BatchDocument, BatchRequest, CaseResult
from service.batches.judging import changes, failed, judged
from service.jobs.intake import Asked, plan_row
from service.jobs.parts import side_by_side
from service.jobs.pool import Outcome, SolverDied, SolverPool
from service.jobs.results import result_of
from service.migrate import migrate
from service.problems import FieldProblem, ProblemError
from service.settings import Settings
from service.store import Store, plans

OnDone = Callable[[int, int], None]


def run(
    asked: BatchRequest,
    settings: Settings,
    *,
    earlier: BatchDocument | None = None,
    store_url: str | None = None,
    on_done: OnDone = lambda _done, _of: None,
) -> BatchDocument:
    """The finished batch; nothing is solved unless every case can be planned.

    Args:
        asked: The cases.
        settings: How many solve at a time, with how much memory.
        earlier: The batch to compare with.
        store_url: A store to look in first and to add to; ``max_slowdown_against`` needs one.
        on_done: Told how many cases of how many are done.

    Raises:
        ProblemError: A case cannot be planned (422).
    """
    store = Store(store_url) if store_url else None
    try:
        if store is not None:
            migrate(store)
        return asyncio.run(_Run(asked, settings, store, on_done).document(earlier))
    finally:
        if store is not None:
            store.close()


class _Run:
    def __init__(
        self, asked: BatchRequest, settings: Settings, store: Store | None, on_done: OnDone
    ) -> None:
        self._asked, self._settings, self._store, self._on_done = asked, settings, store, on_done
        self._several = [Asked(case.request) for case in asked.cases]
        self._pool = SolverPool(
            min(settings.solver_processes, len(self._several)),
            settings.solver_memory_bytes,
            settings.solver_calls_per_process,
            settings.planner,
        )
        self._outcomes: dict[str, asyncio.Task[Mapping[str, Any] | str]] = {}
        self._done = 0

    async def document(self, earlier: BatchDocument | None) -> BatchDocument:
        """Check, solve, judge."""
        references = self._references()
        try:
            await self._check(references)
            results = await asyncio.gather(
                *(self._result(number, references) for number in range(len(self._several)))
            )
        finally:
            await self._pool.close()
        document = BatchDocument(
            id=uuid.uuid4().hex,
            name=self._asked.name,
            status="finished",
            created_at=time.time(),
            against=earlier.id if earlier else None,
            cases=results,
        )
        if earlier is not None:
            document.changes = changes(document, earlier)
        return document

    def _references(self) -> dict[str, float]:
        named = [case.expectations.max_slowdown_against for case in self._asked.cases]
        if self._store is None or not any(named):
            return {}
        with self._store.reading() as session:
            return plans.iteration_seconds_of(session, [name for name in named if name])

    async def _check(self, references: Mapping[str, float]) -> None:
        found = refusals.of_references(self._asked, references)
        for parts in await asyncio.gather(
            *(self._problems(number) for number in range(len(self._several)))
        ):
            found += parts
        refusals.refuse(found)

    async def _problems(self, number: int) -> list[FieldProblem]:
        outcome = await self._called("check", self._several[number])
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        if outcome.problem is None:
            return []
        if outcome.problem.status >= 500:
            raise ProblemError(outcome.problem)
        return [refusals.within(number, part) for part in outcome.problem.parts]

    async def _result(self, number: int, references: Mapping[str, float]) -> CaseResult:
        asked, case = self._several[number], self._asked.cases[number]
        name, plan_id = self._asked.names()[number], asked.plan_id
        task = self._outcomes.get(plan_id)
        if task is None:
            task = self._outcomes[plan_id] = asyncio.create_task(self._answer(asked))
        answer = await task
        self._done += 1
        self._on_done(self._done, len(self._several))
        if isinstance(answer, str):
            return failed(name, plan_id, answer)
        reference = references.get(case.expectations.max_slowdown_against or "")
        return judged(name, plan_id, case.expectations, answer, reference)

    async def _answer(self, asked: Asked) -> Mapping[str, Any] | str:
        """The plan's document, or why there is none."""
        if self._store is not None:
            with self._store.reading() as session:
                stored = plans.find(session, asked.plan_id)
            if stored is not None and stored.answer is not None:
                found: Mapping[str, Any] = from_json(stored.answer)
                return found
        outcome = await self._called("plan", asked)
        if isinstance(outcome, str):
            return outcome
        if outcome.answer is None:
            return str(outcome.problem)
        self._keep(asked, outcome)
        answer: Mapping[str, Any] = from_json(outcome.answer)
        return answer

    async def _called(self, call: str, asked: Asked) -> Outcome | str:
        limit, grace = (
            asked.request.solver.time_limit_seconds,
            self._settings.solve_grace_seconds,
        )
        seconds = limit + grace
        try:
            outcome = await self._pool.call(call, asked.json, seconds)
            if outcome.parts:
                outcome = await side_by_side(self._pool, asked.json, outcome, limit, grace)
            return outcome
        except SolverDied as death:
            return f"{death}."
        except TimeoutError:
            return f"The solver was stopped after {seconds:g} s."

    def _keep(self, asked: Asked, outcome: Outcome) -> None:
        if self._store is None:
            return
        now = time.time()
        with self._store.writing() as session:
            if plans.find(session, asked.plan_id) is None:
                plans.add(session, plan_row(asked, now))
            plans.finish(session, asked.plan_id, result_of(outcome), now)
