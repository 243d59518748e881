"""A service that really listens, for browsers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from service.app import create_app
from tests.service.conftest import patient

_PATIENCE_SECONDS = 300.0


@contextmanager
def running(folder: Path, planner: str = "solver.planner") -> Iterator[str]:
    """The origin of a service with a database of its own."""
    settings = patient(
        database_url=f"sqlite:///{folder}/plans.db",
        planner=planner,
        solver_processes=1,
        heartbeat_seconds=0.1,
    )
    server = uvicorn.Server(
        uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        assert time.monotonic() < give_up_at, "the service did not start in time"
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
