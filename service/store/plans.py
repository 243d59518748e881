"""The queries of plans."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, delete, select, tuple_, update
from sqlalchemy.orm import Session

from service.store.tables import AskRow, JobRow, PlanRow

UNFINISHED = ("queued", "running")


@dataclass(frozen=True)
class StoredPlan:
    """A plan as the store has it; ``answer`` and ``problem`` are JSON text."""

    id: str
    status: str
    answer: str | None
    problem: str | None
    kind: str = "plan"

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to it unless somebody asks again."""
        return self.status not in UNFINISHED


@dataclass(frozen=True)
class Standing:
    """Where a plan stands, without its answer; ``problem`` and ``progress`` are JSON text."""

    status: str
    problem: str | None
    progress: str | None

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to it unless somebody asks again."""
        return self.status not in UNFINISHED


@dataclass(frozen=True)
class Result:
    """How a solve ended: the fields of a plan that it decides."""

    status: str
    answer: str | None = None
    problem: str | None = None
    iteration_seconds: float | None = None
    gap: float | None = None


@dataclass(frozen=True)
class Place:
    """A place in the list of plans, newest first: the last plan of a page."""

    created_at: float
    id: str


def find(session: Session, plan_id: str) -> StoredPlan | None:
    """The plan of that id."""
    row = session.execute(
        select(PlanRow.id, PlanRow.status, PlanRow.answer, PlanRow.problem, PlanRow.kind).where(
            PlanRow.id == plan_id
        )
    ).one_or_none()
    return StoredPlan(*row) if row else None


def kind_and_request(session: Session, plan_id: str) -> tuple[str, str] | None:
    """What kind of work the plan is, and its canonical request (JSON)."""
    row = session.execute(
        select(PlanRow.kind, PlanRow.request).where(PlanRow.id == plan_id)
    ).one_or_none()
    return (row.kind, row.request) if row else None


def request_of(session: Session, plan_id: str) -> str | None:
    """The canonical request (JSON) that the plan answers."""
    return session.scalar(select(PlanRow.request).where(PlanRow.id == plan_id))


def standings(session: Session, plan_ids: Collection[str]) -> dict[str, Standing]:
    """Where each of the plans stands; those that there are not are left out."""
    rows = session.execute(
        select(PlanRow.id, PlanRow.status, PlanRow.problem, JobRow.progress)
        .outerjoin(JobRow, and_(JobRow.plan_id == PlanRow.id, JobRow.status.in_(UNFINISHED)))
        .where(PlanRow.id.in_(plan_ids))
    )
    return {
        plan_id: Standing(status, problem, progress) for plan_id, status, problem, progress in rows
    }


def iteration_seconds_of(session: Session, plan_ids: Collection[str]) -> dict[str, float]:
    """Iteration times of those of the plans that have succeeded."""
    rows = session.execute(
        select(PlanRow.id, PlanRow.iteration_seconds).where(
            PlanRow.id.in_(plan_ids), PlanRow.iteration_seconds.is_not(None)
        )
    )
    return {plan_id: seconds for plan_id, seconds in rows if seconds}


def page(
    session: Session,
    limit: int,
    after: Place | None = None,
    status: str | None = None,
    tenant: str | None = None,
    kind: str = "plan",
) -> Sequence[PlanRow]:
    """At most ``limit`` plans, or work of another ``kind``, newest first, from behind ``after``;
    with ``tenant`` those only that the tenant asked for.
    """
    query = select(PlanRow).where(PlanRow.kind == kind)
    query = query.order_by(PlanRow.created_at.desc(), PlanRow.id.desc()).limit(limit)
    if after is not None:
        query = query.where(
            tuple_(PlanRow.created_at, PlanRow.id) < tuple_(after.created_at, after.id)
        )
    if status is not None:
        query = query.where(PlanRow.status == status)
    if tenant is not None:
        query = query.join(AskRow, AskRow.plan_id == PlanRow.id).where(AskRow.tenant == tenant)
    return session.scalars(query).all()


def visible(session: Session, plan_ids: Collection[str], tenant: str | None = None) -> set[str]:
    """Those of the plans that there are; with ``tenant`` that the tenant asked for."""
    query = select(PlanRow.id).where(PlanRow.id.in_(plan_ids))
    if tenant is not None:
        query = query.join(AskRow, AskRow.plan_id == PlanRow.id).where(AskRow.tenant == tenant)
    return set(session.scalars(query))


def add(session: Session, row: PlanRow) -> None:
    """Store a plan that is asked for the first time."""
    session.add(row)
    session.flush()


def set_status(session: Session, plan_id: str, status: str) -> None:
    """Note where an unanswered plan stands."""
    session.execute(
        update(PlanRow)
        .where(PlanRow.id == plan_id, PlanRow.answer.is_(None))
        .values(status=status, problem=None, finished_at=None)
    )


def ask_again(session: Session, plan_id: str, request: str) -> None:
    """Queue an unanswered one anew, for a request that has the same answer."""
    set_status(session, plan_id, "queued")
    session.execute(
        update(PlanRow)
        .where(PlanRow.id == plan_id, PlanRow.answer.is_(None))
        .values(request=request)
    )


def finish(session: Session, plan_id: str, result: Result, now: float) -> None:
    """Write how the solve ended; an answer that is there already stays."""
    session.execute(
        update(PlanRow)
        .where(PlanRow.id == plan_id, PlanRow.answer.is_(None))
        .values(
            status=result.status,
            answer=result.answer,
            problem=result.problem,
            iteration_seconds=result.iteration_seconds,
            gap=result.gap,
            finished_at=now,
        )
    )


def remove(session: Session, plan_id: str) -> bool:
    """Remove the plan and its jobs; false if there is none."""
    removed = session.scalar(delete(PlanRow).where(PlanRow.id == plan_id).returning(PlanRow.id))
    return removed is not None


def remove_finished_before(session: Session, moment: float, limit: int) -> int:
    """Remove plans that were finished before ``moment``, with their jobs; how many."""
    old = select(PlanRow.id).where(PlanRow.finished_at < moment).limit(limit)
    removed = session.scalars(delete(PlanRow).where(PlanRow.id.in_(old)).returning(PlanRow.id))
    return len(removed.all())
