"""Watching plans: whoever watches is told by this process, or by looking at the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from anyio import to_thread

from service.store import Store, plans
from service.store.plans import Standing

_LOOK_SECONDS = 0.1


class Watch:
    """Tells those who watch a plan what happens to it.

    One look at the store serves all who watch, so that what another process does is noticed too,
    whatever the number of watchers.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: defaultdict[str, set[_Watcher]] = defaultdict(set)
        self._someone_watches = asyncio.Event()
        self._stopping = False

    def announce(self, plan_id: str) -> None:
        """Say that the plan is finished, before the next look would."""
        for watcher in self._watchers.get(plan_id, ()):
            watcher.finished.set()
            watcher.news.set()

    def stop(self) -> None:
        """End every :meth:`changes`: the service is about to go."""
        self._stopping = True

    async def wait(self, plan_id: str, seconds: float) -> None:
        """Return when the plan is finished, or after ``seconds``."""
        with self._watching(plan_id) as watcher, suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await watcher.finished.wait()

    async def changes(
        self, plan_id: str, silence_seconds: float
    ) -> AsyncGenerator[Standing | None]:
        """Where the plan stands, now and whenever that changes, to the end.

        None says that nothing changed for ``silence_seconds``. Ends after a finished plan, when
        the plan is gone, or when the service stops.
        """
        with self._watching(plan_id) as watcher:
            told: Standing | None = None
            while not self._stopping:
                watcher.news.clear()
                standing = await to_thread.run_sync(self._standing, plan_id)
                if standing is None:
                    return
                if standing != told:
                    told = standing
                    yield standing
                if standing.finished:
                    return
                try:
                    async with asyncio.timeout(silence_seconds):
                        await watcher.news.wait()
                except TimeoutError:
                    yield None

    async def run(self) -> None:
        """Look at the store for as long as somebody watches; runs until cancelled."""
        while True:
            await self._someone_watches.wait()
            seen: dict[str, Standing] = {}
            while self._watchers:
                found = await to_thread.run_sync(self._standings, list(self._watchers))
                for plan_id in list(self._watchers):
                    self._tell(plan_id, seen.get(plan_id), found.get(plan_id))
                seen = found
                await asyncio.sleep(_LOOK_SECONDS)
            self._someone_watches.clear()

    def _tell(self, plan_id: str, before: Standing | None, now: Standing | None) -> None:
        if now is not None and now.finished:
            self.announce(plan_id)
        elif now != before or self._stopping:
            for watcher in self._watchers.get(plan_id, ()):
                watcher.news.set()

    @contextmanager
    def _watching(self, plan_id: str) -> Iterator[_Watcher]:
        watcher = _Watcher()
        self._watchers[plan_id].add(watcher)
        self._someone_watches.set()
        try:
            yield watcher
        finally:
            self._watchers[plan_id].discard(watcher)
            if not self._watchers[plan_id]:
                del self._watchers[plan_id]

    def _standing(self, plan_id: str) -> Standing | None:
        return self._standings([plan_id]).get(plan_id)

    def _standings(self, plan_ids: list[str]) -> dict[str, Standing]:
        with self._store.reading() as session:
            return plans.standings(session, plan_ids)


class _Watcher:
    """One who watches a plan."""

    def __init__(self) -> None:
        self.news: Final = asyncio.Event()
        self.finished: Final = asyncio.Event()
