"""The queries of jobs. A job's row is the truth; whoever changes it checks that it still may."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.orm import Session

from service.store.tables import JobRow

IN_FLIGHT = ("queued", "running")


@dataclass(frozen=True)
class Claim:
    """A job that a worker has taken: what to solve, and which attempt this is."""

    job_id: int
    plan_id: str
    attempts: int
    deadline_at: float | None


def add(
    session: Session, plan_id: str, priority: int, deadline_at: float | None, now: float
) -> int:
    """Queue a job for the plan; a second one in flight is refused by the unique index."""
    row = JobRow(
        plan_id=plan_id,
        status="queued",
        priority=priority,
        attempts=0,
        deadline_at=deadline_at,
        created_at=now,
    )
    session.add(row)
    session.flush()
    return row.id


def in_flight(session: Session, plan_id: str) -> JobRow | None:
    """The job that is queued or running for the plan."""
    return session.scalar(
        select(JobRow).where(JobRow.plan_id == plan_id, JobRow.status.in_(IN_FLIGHT))
    )


def progress_of(session: Session, plan_id: str) -> str | None:
    """The latest progress (JSON) of the plan's job in flight."""
    return session.scalar(
        select(JobRow.progress).where(JobRow.plan_id == plan_id, JobRow.status.in_(IN_FLIGHT))
    )


def waiting(session: Session, silent_since: float, limit: int) -> list[tuple[int, int]]:
    """The next jobs (id, priority): queued, or running on a worker that has fallen silent."""
    rows = session.execute(
        select(JobRow.id, JobRow.priority)
        .where(_may_be_taken(silent_since))
        .order_by(JobRow.priority.desc(), JobRow.id)
        .limit(limit)
    )
    return [(row.id, row.priority) for row in rows]


def claim(
    session: Session, job_id: int, owner: str, silent_since: float, now: float
) -> Claim | None:
    """Take the job for ``owner``; None if another has it or it is over."""
    taken = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, _may_be_taken(silent_since))
        .values(
            status="running",
            owner=owner,
            attempts=JobRow.attempts + 1,
            started_at=now,
            heartbeat_at=now,
        )
        .returning(JobRow.id, JobRow.plan_id, JobRow.attempts, JobRow.deadline_at)
    ).one_or_none()
    return Claim(*taken) if taken else None


def beat(session: Session, job_id: int, owner: str, progress: str | None, now: float) -> bool:
    """Say that ``owner`` is still at work; false if the job is no longer its own."""
    return _changed(session, job_id, owner, heartbeat_at=now, progress=progress)


def hand_back(session: Session, job_id: int, owner: str) -> bool:
    """Queue the job again, as if ``owner`` had never taken it."""
    return _changed(
        session,
        job_id,
        owner,
        status="queued",
        owner=None,
        attempts=JobRow.attempts - 1,
        started_at=None,
        heartbeat_at=None,
    )


def finish(session: Session, job_id: int, owner: str, status: str, now: float) -> bool:
    """Close the job; false if it is no longer ``owner``'s, whose result then counts for nothing."""
    return _changed(session, job_id, owner, status=status, finished_at=now)


def cancel(session: Session, plan_id: str, now: float) -> int | None:
    """Cancel the plan's job in flight and return its id; None if there is none."""
    return session.scalar(
        update(JobRow)
        .where(JobRow.plan_id == plan_id, JobRow.status.in_(IN_FLIGHT))
        .values(status="cancelled", finished_at=now)
        .returning(JobRow.id)
    )


def _may_be_taken(silent_since: float) -> ColumnElement[bool]:
    return or_(
        JobRow.status == "queued",
        and_(JobRow.status == "running", JobRow.heartbeat_at < silent_since),
    )


def _changed(session: Session, job_id: int, held_by: str, **values: object) -> bool:
    changed = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.owner == held_by, JobRow.status == "running")
        .values(**values)
        .returning(JobRow.id)
    )
    return changed.one_or_none() is not None


def count_of(session: Session, plan_id: str) -> int:
    """Jobs that there were for the plan, over or not."""
    return session.scalar(select(func.count()).where(JobRow.plan_id == plan_id)) or 0
