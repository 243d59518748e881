"""A worker: solves what servers on the same PostgreSQL database accept."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from service.jobs import engine
from service.operations import logs, memory, metrics, traces
from service.settings import Settings
from service.store import Store


def run(metrics_port: int | None = None) -> None:
    """Work until told to stop; running jobs are handed back."""
    memory.share_one_heap()
    settings = Settings()
    logs.configure(settings.log_level, settings.log_format)
    if settings.traces_url is not None:
        traces.send_to(settings.traces_url)
    if not settings.shared:
        sys.exit("stagecut worker needs PostgreSQL: set STAGECUT_DATABASE_URL=postgresql://...")
    if metrics_port is not None:
        metrics.serve(metrics_port)
    asyncio.run(_until_stopped(settings))


async def _until_stopped(settings: Settings) -> None:
    store = Store(settings.database_url)

    def ready() -> None:
        hands = settings.solver_processes
        print(f"Working, {hands} solves at a time. Stop it with Ctrl-C.", flush=True)

    work = asyncio.create_task(engine.work(store, settings, ready))
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, work.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await work
    finally:
        store.close()
