"""A worker: solves what servers on the same PostgreSQL database accept."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from service.jobs import engine
from service.settings import Settings
from service.store import Store


def run() -> None:
    """Work until told to stop; running jobs are handed back."""
    settings = Settings()
    if not settings.shared:
        sys.exit("stagecut worker needs PostgreSQL: set STAGECUT_DATABASE_URL=postgresql://...")
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
