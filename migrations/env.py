"""How Alembic reaches the database: through the service's engine, one migration at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Engine, text

from service.settings import Settings
from service.store.database import Store
from service.store.tables import Base

_MIGRATION_LOCK = 5_740_431  # any number that nobody else locks in this database


def run() -> None:
    """Apply the migrations; PostgreSQL's advisory lock lets one process do it at a time."""
    engine: Engine = (
        context.config.attributes.get("engine") or Store(Settings().database_url).engine
    )
    with engine.connect() as connection:
        postgresql = connection.dialect.name == "postgresql"
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            render_as_batch=not postgresql,
            transaction_per_migration=False,
        )
        with context.begin_transaction():
            if postgresql:
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
                )
            context.run_migrations()
        connection.commit()


run()
