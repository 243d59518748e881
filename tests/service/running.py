"""A service on a real socket, in a thread of the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from service.app import create_app
from service.settings import Settings


@contextmanager
def running(settings: Settings) -> Iterator[str]:
    """The URL of a service with these settings, which runs until the block ends."""
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()
