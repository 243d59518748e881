"""The migrations do on PostgreSQL what they do on SQLite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect

from service.settings import Settings
from service.store import Store, schema
from service.store.tables import Base


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(Settings(database_url=database_url).database_url)
    yield store
    store.close()


def test_every_migration_can_be_applied_and_taken_back_one_by_one(store: Store) -> None:
    configuration = schema.configuration(store.engine)
    schema.migrate(store.engine)
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    steps = 0
    while "plans" in inspect(store.engine).get_table_names():
        command.downgrade(configuration, "-1")
        steps += 1
    assert steps == int(schema.newest())
    for _ in range(steps):
        command.upgrade(configuration, "+1")
    assert schema.is_current(store.engine)
