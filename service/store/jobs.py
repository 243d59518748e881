"""The queries of jobs. A job's row is the truth; whoever changes it checks that it still may."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, String, and_, case, cast, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from service.store.tables import JobRow

IN_FLIGHT = ("queued", "running")


@dataclass(frozen=True)
class Claim:
    """A job that a worker has taken: what to solve, and which attempt this is."""

    job_id: int
    plan_id: str
    attempts: int
    deadline_at: float | None
    trace_parent: str | None = None


def add(
    session: Session,
    plan_id: str,
    priority: int,
    deadline_at: float | None,
    now: float,
    chunk: str | None = None,
    trace_parent: str | None = None,
) -> int:
    """Queue a job for the plan; a second one in flight is refused by the unique index."""
    row = JobRow(
        plan_id=plan_id,
        status="queued",
        priority=priority,
        attempts=0,
        deadline_at=deadline_at,
        chunk=chunk,
        trace_parent=trace_parent,
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


def priority_of(session: Session, job_id: int) -> int:
    """How urgent the job is."""
    return session.scalar(select(JobRow.priority).where(JobRow.id == job_id)) or 0


def may_be_taken(session: Session, plan_id: str, silent_since: float) -> int | None:
    """The plan's job, if it waits or its worker has fallen silent."""
    return session.scalar(
        select(JobRow.id).where(JobRow.plan_id == plan_id, _may_be_taken(silent_since))
    )


def progress_of(session: Session, plan_id: str) -> str | None:
    """The latest progress (JSON) of the plan's job in flight."""
    return session.scalar(
        select(JobRow.progress).where(JobRow.plan_id == plan_id, JobRow.status.in_(IN_FLIGHT))
    )


def join(
    session: Session, plan_id: str, priority: int, deadline_at: float | None
) -> tuple[int, int] | None:
    """Let one more ask for the plan's job in flight: it gets the more urgent priority and the
    later deadline of the two. The job (id, priority) if it waits and goes up.
    """
    row = in_flight(session, plan_id)
    if row is None:
        return None
    if row.deadline_at is not None:
        row.deadline_at = None if deadline_at is None else max(row.deadline_at, deadline_at)
    if priority <= row.priority:
        return None
    row.priority = priority
    row.chunk = None  # the rest of its chunk is not as urgent
    return (row.id, priority) if row.status == "queued" else None


def waiting(session: Session, silent_since: float, limit: int) -> list[tuple[int, int]]:
    """The next jobs (id, priority): queued, or running on a worker that has fallen silent.

    Of a chunk that nobody has taken yet only the first is named: it brings the others along.
    """
    alone = or_(JobRow.chunk.is_(None), JobRow.attempts > 0)
    together = case((alone, cast(JobRow.id, String)), else_=JobRow.chunk)
    first, urgency = func.min(JobRow.id), func.max(JobRow.priority)
    rows = session.execute(
        select(first, urgency)
        .where(_may_be_taken(silent_since))
        .group_by(together)
        .order_by(urgency.desc(), first)
        .limit(limit)
    )
    return [(job_id, priority) for job_id, priority in rows]


def claim(
    session: Session, job_id: int, owner: str, silent_since: float, now: float
) -> list[Claim]:
    """Take the job for ``owner``, and what waits of its chunk; others' jobs are not taken.

    A job that was tried before is taken alone: it may be what ended the worker.
    """
    named = aliased(JobRow)
    chunk = select(named.chunk).where(named.id == job_id, named.attempts == 0).scalar_subquery()
    mates = and_(JobRow.chunk == chunk, JobRow.attempts == 0)
    taken = session.execute(
        update(JobRow)
        .where(or_(JobRow.id == job_id, mates), _may_be_taken(silent_since))
        .values(
            status="running",
            owner=owner,
            attempts=JobRow.attempts + 1,
            started_at=now,
            heartbeat_at=now,
        )
        .returning(
            JobRow.id,
            JobRow.plan_id,
            JobRow.attempts,
            JobRow.deadline_at,
            JobRow.trace_parent,
        )
        .execution_options(synchronize_session=False)
    )
    return sorted((Claim(*row) for row in taken), key=lambda claim: claim.job_id)


def beat(
    session: Session,
    job_ids: Collection[int],
    owner: str,
    current: int,
    progress: str | None,
    now: float,
) -> dict[int, float | None]:
    """Say that ``owner`` is still at work; those of the jobs that are its own, with deadlines."""
    beaten = session.execute(
        update(JobRow)
        .where(JobRow.id.in_(job_ids), JobRow.owner == owner, JobRow.status == "running")
        .values(
            heartbeat_at=now, progress=case((JobRow.id == current, progress), else_=JobRow.progress)
        )
        .returning(JobRow.id, JobRow.deadline_at)
        .execution_options(synchronize_session=False)
    )
    return {row.id: row.deadline_at for row in beaten}


def expire(session: Session, now: float) -> list[str]:
    """Close the queued jobs whose deadline has passed; their plans."""
    return list(
        session.scalars(
            update(JobRow)
            .where(JobRow.status == "queued", JobRow.deadline_at <= now)
            .values(status="failed", finished_at=now)
            .returning(JobRow.plan_id)
        )
    )


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


def in_flight_counts(session: Session) -> tuple[dict[str, int], float | None]:
    """Jobs in flight by status, and when the one was accepted that waits longest."""
    rows = session.execute(
        select(JobRow.status, func.count(), func.min(JobRow.created_at))
        .where(JobRow.status.in_(IN_FLIGHT))
        .group_by(JobRow.status)
    ).all()
    counts = {status: count for status, count, _ in rows}
    return counts, next((oldest for status, _, oldest in rows if status == "queued"), None)
