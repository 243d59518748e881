"""The queries of calibrations."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.store.tables import CalibrationRow
from solver.calibrations import Calibration


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
