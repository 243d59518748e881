"""The migrations make the tables that the code says, and can be taken back."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from service.store import Store, schema
from service.store.tables import Base


def test_migrations_make_the_tables_of_the_code(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/a.db")
    schema.migrate(store.engine)
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/a.db")
    assert not schema.is_current(store.engine)
    schema.migrate(store.engine)
    assert schema.is_current(store.engine)
    schema.migrate(store.engine)
    assert schema.is_current(store.engine)


def test_migrations_can_be_taken_back(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/a.db")
    schema.migrate(store.engine)
    command.downgrade(schema.configuration(store.engine), "base")
    assert inspect(store.engine).get_table_names() == ["alembic_version"]
    schema.migrate(store.engine)
    assert schema.is_current(store.engine)


def test_the_newest_revision_is_what_alembic_says(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/a.db")
    script = ScriptDirectory.from_config(schema.configuration(store.engine))
    assert schema.newest() == script.get_current_head()
