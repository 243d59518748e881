"""The queries of observations."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.store.tables import ObservationRow


def keep(
    session: Session, identity: str, plan_id: str, tenant: str, document: str, now: float
) -> None:
    """Store what was measured of a plan and judged."""
    session.add(
        ObservationRow(
            id=identity, plan_id=plan_id, tenant=tenant, document=document, created_at=now
        )
    )


def listed(session: Session, plan_id: str, tenant: str, limit: int) -> Sequence[str]:
    """The newest observations of a plan by a tenant (JSON text), newest first."""
    query = (
        select(ObservationRow.document)
        .where(ObservationRow.plan_id == plan_id, ObservationRow.tenant == tenant)
        .order_by(ObservationRow.created_at.desc(), ObservationRow.id)
        .limit(limit)
    )
    return list(session.scalars(query))
