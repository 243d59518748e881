"""The queries of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.store.tables import BatchCaseRow, BatchRow, PlanRow


@dataclass(frozen=True)
class CaseStanding:
    """A case with its plan as it stands; ``plan_status`` is None if the plan was removed."""

    case: BatchCaseRow
    plan_status: str | None
    answer: str | None
    problem: str | None


def add(session: Session, batch: BatchRow, cases: Sequence[BatchCaseRow]) -> None:
    """Store a batch that is asked for."""
    session.add(batch)
    session.flush()
    session.add_all(cases)


def find(session: Session, batch_id: str, tenant: str | None) -> BatchRow | None:
    """The batch of that id, if it is the tenant's; None is whoever sees everything."""
    row = session.get(BatchRow, batch_id)
    return row if row is not None and tenant in (None, row.tenant) else None


def latest(session: Session, limit: int, tenant: str | None) -> Sequence[str]:
    """Ids of the tenant's batches, newest first; None is whoever sees everything."""
    query = select(BatchRow.id).order_by(BatchRow.created_at.desc(), BatchRow.id).limit(limit)
    if tenant is not None:
        query = query.where(BatchRow.tenant == tenant)
    return session.scalars(query).all()


def cases(session: Session, batch_id: str) -> Sequence[BatchCaseRow]:
    """The cases of a batch, in order."""
    return session.scalars(
        select(BatchCaseRow).where(BatchCaseRow.batch_id == batch_id).order_by(BatchCaseRow.number)
    ).all()


def unsettled(session: Session, batch_id: str, running: Sequence[str]) -> list[CaseStanding]:
    """The cases without an outcome whose plan is not in one of the ``running`` statuses."""
    rows = session.execute(
        select(BatchCaseRow, PlanRow.status, PlanRow.answer, PlanRow.problem)
        .outerjoin(PlanRow, PlanRow.id == BatchCaseRow.plan_id)
        .where(
            BatchCaseRow.batch_id == batch_id,
            BatchCaseRow.outcome.is_(None),
            PlanRow.status.is_(None) | PlanRow.status.not_in(running),
        )
    )
    return [CaseStanding(*row) for row in rows]


def settle(session: Session, case: BatchCaseRow, outcome: str) -> None:
    """Write how a case ended, unless that is known."""
    session.execute(
        update(BatchCaseRow)
        .where(
            BatchCaseRow.batch_id == case.batch_id,
            BatchCaseRow.number == case.number,
            BatchCaseRow.outcome.is_(None),
        )
        .values(outcome=outcome)
    )
