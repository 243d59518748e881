"""The intake as one caller sees it: their own plans, within what they may ask."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import suppress

from anyio import to_thread
from sqlalchemy.exc import IntegrityError

from service.access.caller import Caller
from service.access.limits import too_many
from service.jobs.intake import Asked, Intake
from service.jobs.terms import USUAL, Terms
from service.problems import ProblemError, problem
from service.settings import Settings
from service.store import Store, asks
from service.store.plans import Standing, StoredPlan

_DAY_SECONDS = 86_400.0
_BELIEVED_SECONDS = 2.0
_MOST_BELIEVED = 50_000


class Sightings:
    """Which tenant was just found to have asked for which plan; believed for a moment."""

    def __init__(self) -> None:
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def has(self, tenant: str, plan_id: str) -> bool:
        """Whether that was found a moment ago."""
        return self._until.get((tenant, plan_id), 0.0) > time.monotonic()

    def add(self, tenant: str, plan_id: str) -> None:
        """Remember it."""
        self._until[tenant, plan_id] = time.monotonic() + _BELIEVED_SECONDS
        if len(self._until) > _MOST_BELIEVED:
            self._until.popitem(last=False)

    def drop(self, tenant: str, plan_id: str) -> None:
        """Forget it."""
        self._until.pop((tenant, plan_id), None)


class Counter:
    """What one caller can ask of the intake."""

    def __init__(
        self, intake: Intake, store: Store, settings: Settings, seen: Sightings, caller: Caller
    ) -> None:
        self._intake, self._store, self._settings = intake, store, settings
        self._seen, self._caller = seen, caller

    async def plan(
        self, asked: Asked, wait_seconds: float = 0.0, terms: Terms = USUAL
    ) -> StoredPlan:
        """The plan as it stands after at most ``wait_seconds``; ``terms`` say when it is solved.

        Raises:
            ProblemError: The request cannot be planned, or is more than the caller may ask.
        """
        self._within_time(asked)
        asked = await self.known(asked)
        if self._caller.visible is None or self._seen.has(self._caller.tenant, asked.plan_id):
            return await self._intake.plan(asked, wait_seconds, terms)
        await self._within_quota([asked.plan_id])
        stored = await self._intake.plan(asked, 0.0, terms)
        await self._note([asked.plan_id])
        if stored.finished or wait_seconds <= 0:
            return stored
        return await self._intake.plan(asked, wait_seconds, terms)

    async def known(self, asked: Asked) -> Asked:
        """The same with the content of the calibration that it names."""
        return await self._intake.known(asked)

    async def evaluate(self, asked: Asked) -> str:
        """The evaluation (JSON text) of the plan that the request describes."""
        return await self._intake.evaluate(asked)

    async def quick_answer(self, call: str, asked: Asked) -> str:
        """What a call that needs no job answers (JSON text)."""
        return await self._intake.quick_answer(call, asked)

    async def check(self, asked: Asked) -> None:
        """See whether the request could be planned and is within limits."""
        self._within_time(asked)
        await self._intake.check(asked)

    async def accept_all(self, several: Sequence[Asked], terms: Terms, group: str) -> None:
        """Accept many small plans, which were checked.

        Raises:
            ProblemError: They are more than the caller may ask.
        """
        plan_ids = [asked.plan_id for asked in several]
        await self._within_quota(plan_ids)
        await self._intake.accept_all(several, terms, group)
        await self._note(plan_ids)

    async def sees(self, plan_id: str) -> bool:
        """Whether the caller's tenant asked for the plan."""
        tenant = self._caller.visible
        if tenant is None or self._seen.has(tenant, plan_id):
            return True
        if not await to_thread.run_sync(self._knows, tenant, plan_id):
            return False
        self._seen.add(tenant, plan_id)
        return True

    async def find(self, plan_id: str) -> StoredPlan | None:
        """The plan of that id, if the caller sees it."""
        return await self._intake.find(plan_id) if await self.sees(plan_id) else None

    async def progress(self, plan_id: str) -> str | None:
        """How far the plan's solve is (JSON text), if one is under way and has said so."""
        return await self._intake.progress(plan_id)

    async def changes(
        self, plan_id: str, silence_seconds: float
    ) -> AsyncGenerator[Standing | None]:
        """Where the plan stands, now and whenever that changes; None after a silence."""
        if await self.sees(plan_id):
            async for standing in self._intake.changes(plan_id, silence_seconds):
                yield standing

    async def remove(self, plan_id: str) -> bool:
        """Cancel the plan's solve, or remove the plan if it is over; false if there is none.

        A plan that other tenants asked for too is only out of this caller's sight.
        """
        tenant = self._caller.visible
        if tenant is None:
            return await self._intake.remove(plan_id)
        if not await self.sees(plan_id):
            return False
        self._seen.drop(tenant, plan_id)
        if await to_thread.run_sync(self._withdraw, tenant, plan_id):
            return True
        return await self._intake.remove(plan_id)

    def _within_time(self, asked: Asked) -> None:
        most, given = self._settings.max_time_limit_seconds, asked.request.solver.time_limit_seconds
        if most is not None and given > most:
            raise ProblemError(
                problem(
                    422,
                    "bad-request",
                    "The request asks for too much time",
                    f"{given:g} s is more than a solve may take here.",
                    field="solver.time_limit_seconds",
                    hint=f"Give at most {most:g}.",
                )
            )

    async def _within_quota(self, plan_ids: Collection[str]) -> None:
        most, key_id = self._caller.plans_per_day, self._caller.key_id
        if most is None or key_id is None:
            return
        new = [plan_id for plan_id in set(plan_ids) if not await self.sees(plan_id)]
        if new and await to_thread.run_sync(self._asked_today, key_id) + len(new) > most:
            raise too_many(
                "quota-used-up", f"This key may ask for {most} different plans a day.", 3600
            )

    async def _note(self, plan_ids: Sequence[str]) -> None:
        tenant, key_id = self._caller.visible, self._caller.key_id
        if tenant is None or key_id is None:
            return
        await to_thread.run_sync(self._write, tenant, plan_ids, key_id)
        for plan_id in plan_ids:
            self._seen.add(tenant, plan_id)

    def _write(self, tenant: str, plan_ids: Sequence[str], key_id: str) -> None:
        with suppress(IntegrityError), self._store.writing() as session:  # another was faster
            asks.note(session, tenant, plan_ids, key_id, time.time())

    def _knows(self, tenant: str, plan_id: str) -> bool:
        with self._store.reading() as session:
            return asks.knows(session, tenant, plan_id)

    def _withdraw(self, tenant: str, plan_id: str) -> bool:
        """Take the tenant's name off a plan that others asked for; false if nobody else did."""
        with self._store.writing() as session:
            if not asks.others(session, tenant, plan_id):
                return False
            asks.forget(session, tenant, plan_id)
            return True

    def _asked_today(self, key_id: str) -> int:
        with self._store.reading() as session:
            return asks.count_since(session, key_id, time.time() - _DAY_SECONDS)
