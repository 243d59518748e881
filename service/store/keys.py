"""The queries of API keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from service.store.tables import ApiKeyRow


def add(session: Session, row: ApiKeyRow) -> None:
    """Store a key."""
    session.add(row)


def find(session: Session, digest: str, now: float) -> ApiKeyRow | None:
    """The key of that digest, if it is good at the moment ``now``."""
    return session.scalar(
        select(ApiKeyRow).where(
            or_(
                ApiKeyRow.digest == digest,
                and_(ApiKeyRow.previous_digest == digest, ApiKeyRow.previous_until > now),
            ),
            ApiKeyRow.revoked_at.is_(None),
            or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > now),
        )
    )


def exists(session: Session, digest: str) -> bool:
    """Whether there is a key of that digest, good or not."""
    found = or_(ApiKeyRow.digest == digest, ApiKeyRow.previous_digest == digest)
    return session.scalar(select(ApiKeyRow.id).where(found).limit(1)) is not None


def every(session: Session) -> Sequence[ApiKeyRow]:
    """All keys, those no longer good too, oldest first."""
    return session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.created_at)).all()


def any_good(session: Session, now: float) -> bool:
    """Whether there is any key that is good."""
    good = select(ApiKeyRow.id).where(
        ApiKeyRow.revoked_at.is_(None),
        or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > now),
    )
    return session.scalar(good.limit(1)) is not None


def rotate(session: Session, key_id: str, digest: str, previous_until: float) -> bool:
    """Give the key another digest; false if there is none in use."""
    changed = session.execute(
        update(ApiKeyRow)
        .where(ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None))
        .values(digest=digest, previous_digest=ApiKeyRow.digest, previous_until=previous_until)
        .returning(ApiKeyRow.id)
    )
    return changed.one_or_none() is not None


def revoke(session: Session, key_id: str, now: float) -> bool:
    """Revoke the key; false if there is none in use."""
    changed = session.execute(
        update(ApiKeyRow)
        .where(ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(ApiKeyRow.id)
    )
    return changed.one_or_none() is not None
