"""The schema's version: bringing a database up to date, and telling whether it is."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

import migrations


def configuration(engine: Engine) -> Config:
    """Alembic's configuration for the migrations that are installed with the service."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["engine"] = engine
    return config


def migrate(engine: Engine) -> None:
    """Bring the database to the newest schema; nothing happens if it is there already."""
    if not is_current(engine):
        command.upgrade(configuration(engine), "head")


def is_current(engine: Engine) -> bool:
    """Whether the database has the newest schema."""
    head = ScriptDirectory.from_config(configuration(engine)).get_current_head()
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision() == head
