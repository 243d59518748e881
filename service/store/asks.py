"""The queries of who asked for which plan. Only who asked for a plan sees it."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from service.store.tables import AskRow


def note(session: Session, tenant: str, plan_ids: Collection[str], key_id: str, now: float) -> None:
    """Write down that the tenant asked for the plans, unless that is known."""
    known = set(
        session.scalars(
            select(AskRow.plan_id).where(AskRow.tenant == tenant, AskRow.plan_id.in_(plan_ids))
        )
    )
    session.add_all(
        AskRow(tenant=tenant, plan_id=plan_id, key_id=key_id, asked_at=now)
        for plan_id in sorted(set(plan_ids) - known)
    )


def knows(session: Session, tenant: str, plan_id: str) -> bool:
    """Whether the tenant asked for the plan."""
    return session.get(AskRow, (tenant, plan_id)) is not None


def forget(session: Session, tenant: str, plan_id: str) -> None:
    """Let the tenant not have asked for the plan."""
    session.execute(delete(AskRow).where(AskRow.tenant == tenant, AskRow.plan_id == plan_id))


def others(session: Session, tenant: str, plan_id: str) -> int:
    """How many other tenants asked for the plan."""
    query = select(func.count()).where(AskRow.plan_id == plan_id, AskRow.tenant != tenant)
    return session.scalar(query) or 0


def count_since(session: Session, key_id: str, moment: float) -> int:
    """Plans that the key was the first of its tenant to ask for since then."""
    query = select(func.count()).where(AskRow.key_id == key_id, AskRow.asked_at > moment)
    return session.scalar(query) or 0
