"""The queries of workers: which processes solve, by their own word."""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from service.store.tables import WorkerRow

SILENCE_SECONDS = 20.0


def seen(session: Session, name: str, now: float) -> None:
    """Say that the worker of that name is at work."""
    session.merge(WorkerRow(name=name, seen_at=now))
    session.execute(delete(WorkerRow).where(WorkerRow.seen_at < now - 10 * SILENCE_SECONDS))


def gone(session: Session, name: str) -> None:
    """Say that it no longer is."""
    session.execute(delete(WorkerRow).where(WorkerRow.name == name))


def count_alive(session: Session, now: float) -> int:
    """Workers that were at work a moment ago."""
    alive = WorkerRow.seen_at > now - SILENCE_SECONDS
    return session.scalar(select(func.count()).where(alive)) or 0
