"""The schema's version: bringing a database up to date, and telling whether it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, inspect, text

import migrations

if TYPE_CHECKING:
    from alembic.config import Config

_FOLDER = Path(migrations.__file__).parent


def configuration(engine: Engine) -> Config:
    """Alembic's configuration for the migrations that are installed with the service."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["engine"] = engine
    return config


def migrate(engine: Engine) -> None:
    """Bring the database to the newest schema; nothing happens if it is there already.

    Alembic is imported only if there is something to do: it is large, and a service lives long.
    """
    if not is_current(engine):
        from alembic import command

        command.upgrade(configuration(engine), "head")


def newest() -> str:
    """The newest revision: the number that the last migration's file begins with."""
    return max(path.name.partition("_")[0] for path in _FOLDER.glob("versions/[0-9]*.py"))


def is_current(engine: Engine) -> bool:
    """Whether the database has the newest schema."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return False
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return found == newest()
