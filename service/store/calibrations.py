"""The queries of calibrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.store.tables import AskRow, CalibrationRow, PlanRow
from solver.calibrations import Calibration

LOOKED_AT = 2_000
"""So many plans are looked through for those that use a calibration."""


def find(session: Session, name: str, version: str | None = None) -> Calibration | None:
    """The calibration of that name: that version, or the newest."""
    query = select(CalibrationRow.document).where(CalibrationRow.name == name)
    if version is not None:
        query = query.where(CalibrationRow.version == version)
    newest_first = (CalibrationRow.created_at.desc(), CalibrationRow.version)
    text = session.scalars(query.order_by(*newest_first).limit(1)).one_or_none()
    return None if text is None else Calibration.model_validate_json(text)


def listed(session: Session, limit: int) -> Sequence[Calibration]:
    """The newest calibrations, newest first."""
    query = select(CalibrationRow.document).order_by(
        CalibrationRow.created_at.desc(), CalibrationRow.name, CalibrationRow.version
    )
    return [Calibration.model_validate_json(text) for text in session.scalars(query.limit(limit))]


def keep(session: Session, calibration: Calibration, now: float) -> bool:
    """Store the calibration as the newest of its name; whether it was not there before."""
    key = {"name": calibration.name, "version": calibration.version}
    row = session.get(CalibrationRow, key)
    if row is not None:
        row.created_at = now
        return False
    document = calibration.model_dump_json()
    session.add(CalibrationRow(**key, device=calibration.device, document=document, created_at=now))
    return True


@dataclass(frozen=True)
class Use:
    """A plan that was made with a calibration."""

    plan_id: str
    model: str
    devices: int | None
    iteration_seconds: float | None
    created_at: float


def uses(session: Session, version: str, limit: int, tenant: str | None = None) -> Sequence[Use]:
    """The newest plans whose request has the content of that version, newest first.

    They are looked for among the last plans only, for no index finds them; with ``tenant`` among
    those that the tenant asked for.
    """
    latest = select(PlanRow).where(PlanRow.kind == "plan", PlanRow.status == "succeeded")
    if tenant is not None:
        latest = latest.join(AskRow, AskRow.plan_id == PlanRow.id).where(AskRow.tenant == tenant)
    newest = latest.order_by(PlanRow.created_at.desc()).limit(LOOKED_AT).subquery()
    query = (
        select(
            newest.c.id,
            newest.c.model,
            newest.c.devices,
            newest.c.iteration_seconds,
            newest.c.created_at,
        )
        .where(newest.c.request.contains(f'"version":"{version}"', autoescape=True))
        .order_by(newest.c.created_at.desc())
        .limit(limit)
    )
    return [Use(*row) for row in session.execute(query)]
