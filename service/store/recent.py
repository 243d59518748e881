"""Answers that were read a moment ago. They never change, so they need not be read again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from service.store.plans import StoredPlan


class RecentAnswers:
    """Finished plans by id, the least recently used dropped first.

    An entry is believed for ``seconds`` only: another process may remove a plan from the store.
    """

    def __init__(
        self,
        max_bytes: int = 32 * 2**20,
        seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[str, tuple[StoredPlan, float]] = OrderedDict()
        self._bytes = 0

    def get(self, plan_id: str) -> StoredPlan | None:
        """The plan, if it was put here lately."""
        found = self._entries.get(plan_id)
        if found is None:
            return None
        plan, put_at = found
        if self._clock() - put_at > self._seconds:
            self.forget(plan_id)
            return None
        self._entries.move_to_end(plan_id)
        return plan

    def put(self, plan: StoredPlan) -> None:
        """Keep the plan, if it has its answer."""
        if plan.answer is None:
            return
        self.forget(plan.id)
        self._entries[plan.id] = (plan, self._clock())
        self._bytes += len(plan.answer)
        while self._bytes > self._max_bytes:
            self.forget(next(iter(self._entries)))

    def forget(self, plan_id: str) -> None:
        """Drop the plan."""
        plan, _ = self._entries.pop(plan_id, (None, 0.0))
        if plan is not None and plan.answer is not None:
            self._bytes -= len(plan.answer)
