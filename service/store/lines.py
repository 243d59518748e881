"""The store as JSON lines: a finished plan on each, to be carried to another store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.store.tables import PlanRow

_FIELDS = (
    "id",
    "status",
    "solver_version",
    "model",
    "device",
    "devices",
    "iteration_seconds",
    "gap",
    "created_at",
    "finished_at",
)
_JSON_FIELDS = ("request", "answer")
_AT_A_TIME = 200


def exported(session: Session) -> Iterator[str]:
    """A line for every plan that is answered, oldest first."""
    rows = session.scalars(
        select(PlanRow)
        .where(PlanRow.answer.is_not(None))
        .order_by(PlanRow.created_at, PlanRow.id)
        .execution_options(yield_per=_AT_A_TIME)
    )
    for row in rows:
        plain = {name: getattr(row, name) for name in _FIELDS}
        documents = {name: json.loads(getattr(row, name)) for name in _JSON_FIELDS}
        yield json.dumps(plain | documents, separators=(",", ":"))


def row_of(fields: dict[str, Any]) -> PlanRow:
    """The plan of a line.

    Raises:
        KeyError: A field is missing.
    """
    plain = {name: fields[name] for name in _FIELDS}
    documents = {
        name: json.dumps(fields[name], separators=(",", ":"), ensure_ascii=False)
        for name in _JSON_FIELDS
    }
    return PlanRow(**plain, **documents)


def add_if_new(session: Session, row: PlanRow) -> bool:
    """Store the plan unless there is an answered one of its id; an unanswered one gets it."""
    known = session.get(PlanRow, row.id)
    if known is None:
        session.add(row)
        session.flush()
        return True
    if known.answer is not None:
        return False
    for name in ("status", "answer", "iteration_seconds", "gap", "finished_at"):
        setattr(known, name, getattr(row, name))
    known.problem = None
    return True
