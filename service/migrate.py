"""Brings a database to the newest schema: our tables, and on PostgreSQL the queue's."""

from __future__ import annotations

import asyncio

from service.store import Store, schema


def migrate(store: Store) -> None:
    """Bring the database to the newest schema; nothing happens if it is there already."""
    schema.migrate(store.engine)
    if store.engine.dialect.name == "postgresql":
        from service.jobs import pgqueuer_queue

        asyncio.run(pgqueuer_queue.install(store.url))
