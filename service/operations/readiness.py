"""Whether requests would be answered: the database is there, current, and somebody solves."""

from __future__ import annotations

import time

from sqlalchemy.exc import DBAPIError

from service.store import Store, schema, workers


def hindrance(store: Store) -> str | None:
    """What keeps the service from answering; None if nothing does."""
    try:
        if not schema.is_current(store.engine):
            return "The database has another schema; run `stagecut migrate`."
        with store.reading() as session:
            alive = workers.count_alive(session, time.time())
    except DBAPIError as error:
        return f"The database does not answer ({type(error.orig).__name__})."
    return None if alive else "No process solves; start `stagecut worker`."
