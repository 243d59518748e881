"""The server's side of batches: taken in whole or not at all, and read as they stand."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

from anyio import to_thread
from pydantic_core import from_json

from service.access.caller import Caller
from service.access.counter import Counter
from service.batches import refusals
from service.batches.documents import (
    BatchDocument,
    BatchRequest,
    CaseResult,
    CaseStatus,
    Expectations,
)
from service.batches.judging import changes, failed, judged
from service.jobs.intake import Asked
from service.jobs.terms import Priority, Terms
from service.problems import Problem, ProblemError
from service.store import Store, batches, plans
from service.store.batches import CaseStanding
from service.store.plans import UNFINISHED
from service.store.tables import BatchCaseRow, BatchRow

_LOOK_SECONDS = 0.2


async def accept(intake: Counter, store: Store, asked: BatchRequest, caller: Caller) -> str:
    """Accept every case, or none; the batch's id.

    Raises:
        ProblemError: A case cannot be planned, or what is referred to is not there (422).
    """
    several: list[Asked] = []
    named = {case.expectations.max_slowdown_against or "" for case in asked.cases} - {""}
    seen = [plan_id for plan_id in sorted(named) if await intake.sees(plan_id)]
    references = await to_thread.run_sync(_seconds_of, store, seen)
    earlier = await to_thread.run_sync(_has, store, asked.against, caller.visible)
    found = [
        *refusals.of_names(asked),
        *refusals.of_references(asked, references),
        *refusals.of_earlier(asked, known=earlier),
    ]
    for number, case in enumerate(asked.cases):
        try:
            several.append(await intake.known(Asked(case.request)))
            await intake.check(several[-1])
        except ProblemError as error:
            if error.problem.status >= 500:
                raise
            found += [refusals.within(number, part) for part in error.problem.parts]
    refusals.refuse(found)
    batch_id = uuid.uuid4().hex
    await intake.accept_all(several, Terms(Priority.BATCH), batch_id)
    await to_thread.run_sync(_write, store, batch_id, asked, several, references, caller.tenant)
    return batch_id


def read(store: Store, batch_id: str, tenant: str | None) -> BatchDocument | None:
    """The batch as it stands, if it is the tenant's."""
    with store.reading() as session:
        if batches.find(session, batch_id, tenant) is None:
            return None
        ended = batches.unsettled(session, batch_id, UNFINISHED)
    if ended:
        with store.writing() as session:
            for standing in ended:
                result = _result(standing)
                batches.settle(session, standing.case, result.model_dump_json())
    document = _document(store, batch_id, tenant)
    earlier = document.against and _document(store, document.against, tenant)
    if isinstance(earlier, BatchDocument):
        document.changes = changes(document, earlier)
    return document


def latest(store: Store, limit: int, tenant: str | None) -> list[BatchDocument]:
    """The tenant's batches as they stand, newest first."""
    with store.reading() as session:
        ids = batches.latest(session, limit, tenant)
    found = [read(store, batch_id, tenant) for batch_id in ids]
    return [batch for batch in found if batch is not None]


async def wait(store: Store, batch_id: str, tenant: str | None, seconds: float) -> BatchDocument:
    """The batch, once it is finished or after ``seconds``."""
    until = time.monotonic() + seconds
    while True:
        document = await to_thread.run_sync(read, store, batch_id, tenant)
        assert document is not None
        if document.passed is not None or time.monotonic() >= until:
            return document
        await asyncio.sleep(_LOOK_SECONDS)


def _document(store: Store, batch_id: str, tenant: str | None) -> BatchDocument:
    with store.reading() as session:
        row, cases = batches.find(session, batch_id, tenant), batches.cases(session, batch_id)
    if row is None:  # an earlier batch that is gone
        return BatchDocument(id=batch_id, name="", status="finished", created_at=0.0, cases=[])
    results = [_known(case) for case in cases]
    pending = any(result.status is CaseStatus.PENDING for result in results)
    return BatchDocument(
        id=row.id,
        name=row.name,
        status="running" if pending else "finished",
        created_at=row.created_at,
        against=row.against,
        cases=results,
    )


def _known(case: BatchCaseRow) -> CaseResult:
    if case.outcome is not None:
        return CaseResult.model_validate_json(case.outcome)
    return CaseResult(name=case.name, plan_id=case.plan_id, status=CaseStatus.PENDING)


def _result(standing: CaseStanding) -> CaseResult:
    case = standing.case
    if standing.answer is not None:
        expectations = Expectations.model_validate_json(case.expectations)
        answer = from_json(standing.answer)
        return judged(case.name, case.plan_id, expectations, answer, case.reference_seconds)
    if standing.problem is not None:
        reason = str(Problem.model_validate_json(standing.problem))
    else:
        reason = f"The plan was {standing.plan_status or 'removed'}."
    return failed(case.name, case.plan_id, reason)


def _has(store: Store, batch_id: str | None, tenant: str | None) -> bool:
    if batch_id is None:
        return False
    with store.reading() as session:
        return batches.find(session, batch_id, tenant) is not None


def _seconds_of(store: Store, plan_ids: Sequence[str]) -> dict[str, float]:
    with store.reading() as session:
        return plans.iteration_seconds_of(session, plan_ids)


def _write(
    store: Store,
    batch_id: str,
    asked: BatchRequest,
    several: Sequence[Asked],
    references: dict[str, float],
    tenant: str,
) -> None:
    row = BatchRow(
        id=batch_id,
        tenant=tenant,
        name=asked.name,
        against=asked.against,
        created_at=time.time(),
    )
    cases = [
        BatchCaseRow(
            batch_id=batch_id,
            number=number,
            name=name,
            plan_id=one.plan_id,
            expectations=case.expectations.model_dump_json(),
            reference_seconds=references.get(case.expectations.max_slowdown_against or ""),
        )
        for number, (name, case, one) in enumerate(
            zip(asked.names(), asked.cases, several, strict=True)
        )
    ]
    with store.writing() as session:
        batches.add(session, row, cases)
