"""The queries of stored clusters."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from service.store.tables import ClusterRow


def find(session: Session, name: str) -> str | None:
    """The document (JSON) of the cluster of that name."""
    return session.scalar(select(ClusterRow.document).where(ClusterRow.name == name))


def names(session: Session) -> list[str]:
    """The names of all clusters, in order."""
    return list(session.scalars(select(ClusterRow.name).order_by(ClusterRow.name)))


def documents(session: Session) -> list[str]:
    """The documents (JSON) of all clusters, in order of their names."""
    return list(session.scalars(select(ClusterRow.document).order_by(ClusterRow.name)))


def put(session: Session, name: str, document: str, now: float) -> bool:
    """Store the cluster; true if there was none of that name."""
    row = session.get(ClusterRow, name)
    if row is None:
        session.add(ClusterRow(name=name, document=document, created_at=now))
        session.flush()
        return True
    row.document, row.created_at = document, now
    session.flush()
    return False


def remove(session: Session, name: str) -> bool:
    """Remove the cluster; false if there is none."""
    removed = session.scalar(
        delete(ClusterRow).where(ClusterRow.name == name).returning(ClusterRow.name)
    )
    return removed is not None
