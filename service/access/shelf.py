"""The stored plans that one caller may see."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from service.access.caller import Caller
from service.store import Store, asks, plans
from service.store.plans import Place, StoredPlan
from service.store.tables import PlanRow


class Shelf:
    """Reads the store on behalf of a caller; every method touches the database."""

    def __init__(self, store: Store, caller: Caller) -> None:
        self._store = store
        self._tenant = caller.visible

    def page(
        self,
        limit: int,
        after: Place | None = None,
        status: str | None = None,
        kind: str = "plan",
    ) -> Sequence[PlanRow]:
        """At most ``limit`` plans, or work of another ``kind``, newest first, from behind
        ``after``.
        """
        with self._store.reading() as session:
            return plans.page(session, limit, after, status, self._tenant, kind)

    def known(self, plan_ids: Collection[str]) -> set[str]:
        """Those of the plans that are here."""
        with self._store.reading() as session:
            return plans.visible(session, plan_ids, self._tenant)

    def find(self, plan_id: str) -> tuple[StoredPlan, str] | None:
        """The plan and its canonical request (JSON text)."""
        with self._store.reading() as session:
            if self._tenant is not None and not asks.knows(session, self._tenant, plan_id):
                return None
            stored, request = plans.find(session, plan_id), plans.request_of(session, plan_id)
        return (stored, request) if stored is not None and request is not None else None
