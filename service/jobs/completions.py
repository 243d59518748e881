"""Waiting for plans: whoever waits is woken by this process, or by looking at the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from anyio import to_thread

from service.store import Store, plans

_LOOK_SECONDS = 0.1


class Completions:
    """Wakes those who wait for a plan to be finished.

    One look at the store serves all who wait, so that a plan finished by another process is noticed
    too, whatever the number of waiters.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._someone_waits = asyncio.Event()

    def announce(self, plan_id: str) -> None:
        """Wake those who wait for the plan."""
        for event in self._waiters.get(plan_id, ()):
            event.set()

    async def wait(self, plan_id: str, seconds: float) -> None:
        """Return when the plan is finished, or after ``seconds``."""
        event = asyncio.Event()
        self._waiters[plan_id].add(event)
        self._someone_waits.set()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiters[plan_id].discard(event)
            if not self._waiters[plan_id]:
                del self._waiters[plan_id]

    async def run(self) -> None:
        """Look at the store for as long as somebody waits; runs until cancelled."""
        while True:
            await self._someone_waits.wait()
            while self._waiters:
                for plan_id in await to_thread.run_sync(self._finished, list(self._waiters)):
                    self.announce(plan_id)
                await asyncio.sleep(_LOOK_SECONDS)
            self._someone_waits.clear()

    def _finished(self, plan_ids: list[str]) -> list[str]:
        with self._store.reading() as session:
            return plans.finished_among(session, plan_ids)
