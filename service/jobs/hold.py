"""A worker's hold on jobs: taken together, kept by heartbeats, settled once each or handed back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.jobs.results import deadline_passed
from service.store import Store, jobs, plans
from service.store.jobs import Claim


class Hold:
    """The jobs that ``owner`` has at work; every method touches the database.

    Small jobs of one chunk are held together, so that taking and settling them costs little.
    """

    def __init__(self, store: Store, owner: str, claims: list[Claim]) -> None:
        self._store = store
        self._owner = owner
        self._held = {claim.job_id: claim for claim in claims}
        self._results: list[tuple[Claim, plans.Result]] = []
        self._written_at = time.monotonic()

    @staticmethod
    def take(store: Store, job_id: int, owner: str, silence_seconds: float) -> Hold:
        """Take the job, and what waits of its chunk; nothing if others have it or it is over."""
        now = time.time()
        with store.writing() as session:
            claims = jobs.claim(session, job_id, owner, now - silence_seconds, now)
            for claim in claims:
                plans.set_status(session, claim.plan_id, "running")
        return Hold(store, owner, claims)

    @property
    def claims(self) -> list[Claim]:
        """The jobs that are still held, in the order in which they were accepted."""
        return list(self._held.values())

    def has(self, claim: Claim) -> bool:
        """Whether the job is still this owner's, as of the last heartbeat."""
        return claim.job_id in self._held

    def is_overdue(self, claim: Claim) -> bool:
        """Whether the job's deadline has passed, as of the last heartbeat."""
        deadline_at = self._held[claim.job_id].deadline_at
        return deadline_at is not None and deadline_at <= time.time()

    def silent_seconds(self) -> float:
        """How long nothing has been written."""
        return time.monotonic() - self._written_at

    def note(self, claim: Claim, result: plans.Result) -> None:
        """Remember how the job ended until it is :meth:`settle`-d."""
        self._results.append((claim, result))

    def drop(self, claim: Claim) -> None:
        """Let go of a job that cannot be begun; its silence brings it back."""
        self._held.pop(claim.job_id, None)

    def settle(self) -> list[str]:
        """Write how jobs ended; the plans that are finished by it."""
        if not self._results:
            return []
        results, now = self._results, time.time()
        with self._store.writing() as session:
            for claim, result in results:
                if jobs.finish(session, claim.job_id, self._owner, result.status, now):
                    plans.finish(session, claim.plan_id, result, now)
        self._results = []
        for claim, _ in results:
            self.drop(claim)
        return [claim.plan_id for claim, _ in results]

    def beat(self, current: Claim, progress: Mapping[str, Any]) -> None:
        """Say that all that is held is at work, and find out what no longer is."""
        self._written_at = time.monotonic()
        text = json.dumps(progress) if progress else None
        with self._store.writing() as session:
            deadlines = jobs.beat(
                session, list(self._held), self._owner, current.job_id, text, time.time()
            )
        self._held = {
            job_id: replace(claim, deadline_at=deadlines[job_id])
            for job_id, claim in self._held.items()
            if job_id in deadlines
        }

    def hand_back(self) -> None:
        """Settle what is done, and queue the rest again as if it had never been taken."""
        self.settle()
        with self._store.writing() as session:
            for claim in self.claims:
                if jobs.hand_back(session, claim.job_id, self._owner):
                    plans.set_status(session, claim.plan_id, "queued")


def expire(store: Store) -> list[str]:
    """Fail the jobs that wait and whose deadline has passed; their plans."""
    now = time.time()
    with store.writing() as session:
        expired = jobs.expire(session, now)
        for plan_id in expired:
            plans.finish(session, plan_id, deadline_passed(), now)
    return expired
