"""The database: one engine for whatever URL the settings name, and its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.orm import Session

_WRITES = "stagecut_writes"


class Store:
    """Opens transactions; the modules of this folder say what happens in them.

    SQLite runs in WAL mode, so readers never wait for the writer, and a writing transaction takes
    the write lock when it begins, so it cannot fail half-way for want of it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        self._writer = self.engine.execution_options(**{_WRITES: True})

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads."""
        with Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose changes are committed together at the end, or not at all."""
        with Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()


def _engine(url: str) -> Engine:
    address = make_url(url)
    if address.get_backend_name() != "sqlite":
        return create_engine(url, pool_size=10, max_overflow=20, pool_pre_ping=True)
    arguments = {"timeout": 15, "check_same_thread": False}
    if address.database in (None, "", ":memory:"):  # gone with its connection: there is one only
        engine = create_engine(
            url, connect_args=arguments, poolclass=QueuePool, pool_size=1, max_overflow=0
        )
    else:
        engine = create_engine(url, connect_args=arguments)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
