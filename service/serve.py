"""Starts the service with its web server."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from rich.console import Console

from service.access.opening import ensure_a_key, resolved
from service.app import create_app
from service.client import Client
from service.console.answers import page
from service.console.progress import ProgressLine, aside
from service.migrate import migrate
from service.operations import logs, memory, traces
from service.problems import ProblemError
from service.settings import Settings
from service.store import Store
from solver.request import PlanRequest

_POLL_SECONDS = 0.05


class _Server(uvicorn.Server):
    """Ends event streams when it is told to stop; they would keep it waiting.

    ``at_the_end`` runs once everything else has stopped: uvicorn then raises the signal that
    stopped it again, after which nothing runs.
    """

    def __init__(self, config: uvicorn.Config, at_the_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._at_the_end = at_the_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, and run what stands at the end."""
        await super().shutdown(sockets)
        self._at_the_end()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        super().handle_exit(sig, frame)
        intake = getattr(self.config.app.state, "intake", None)  # type: ignore[union-attr]
        if intake is not None:
            intake.stop_telling()


def serve(host: str, port: int, first: PlanRequest | None = None) -> None:
    """Serve until told to stop; running jobs are handed back.

    ``first`` is planned over HTTP as soon as the service is up, and shown.
    """
    memory.share_one_heap()
    settings = resolved(Settings(), host)
    logs.configure(settings.log_level, settings.log_format)
    end_tracing = traces.send_to(settings.traces_url) if settings.traces_url else _nothing
    if settings.access == "required":
        _see_that_there_is_a_key(settings)
    server = _Server(
        uvicorn.Config(
            create_app(settings),
            host=host,
            port=port,
            timeout_graceful_shutdown=5,
            access_log=False,
            server_header=False,
            log_config=None,
        ),
        at_the_end=end_tracing,
    )
    threading.Thread(target=_greet, args=(server, first), daemon=True).start()
    server.run()
    if not server.started:
        sys.exit(3)


def _nothing() -> None:
    """Leave nothing to be done."""


def _see_that_there_is_a_key(settings: Settings) -> None:
    """Refuse before anything is started, with one clear message."""
    store = Store(settings.database_url)
    try:
        if settings.migrates_at_start:
            migrate(store)
        ensure_a_key(store, settings)
    finally:
        store.close()


def _greet(server: uvicorn.Server, first: PlanRequest | None) -> None:
    """Say where the service is, once it is up, and show the first plan."""
    while not server.started:
        if server.should_exit:
            return
        time.sleep(_POLL_SECONDS)
    url = _url(server)
    console = Console(highlight=False)
    if first is not None:
        try:
            with (
                Client(url, key=_own_key(server)) as client,
                ProgressLine(aside()),
            ):
                plan = client.plan(first)  # asked once: every request is a line of the log
            console.print(page(first, plan))
            console.print()
            console.print(f"This plan {url}/plans/{plan.id}")
        except ProblemError as error:
            console.print(f"The first plan failed: {error}", style="red", markup=False)
    console.print(f"Pages     {url}")
    console.print(f"API page  {url}/docs")
    console.print("Stop it with Ctrl-C.")


def _own_key(server: uvicorn.Server) -> str | None:
    """The key that the first plan is asked with, where one is needed."""
    settings: Settings = server.config.app.state.settings  # type: ignore[union-attr]
    return settings.bootstrap_key.get_secret_value() if settings.bootstrap_key else None


def _url(server: uvicorn.Server) -> str:
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
