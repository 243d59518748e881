"""Planning in this process with a store beside it: what is there already is not solved again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from service.console.standard_output import kept_for_answers
from service.jobs.intake import Asked, plan_row
from service.migrate import migrate
from service.store import Store, plans
from solver.plan import Plan
from solver.request import PlanRequest


def plan_with_store(
    request: PlanRequest, url: str, progress: Callable[[Any], None] | None = None
) -> Plan:
    """The plan from the store at ``url``, or else solved here and stored there."""
    asked = Asked(request)
    store = Store(url)
    try:
        migrate(store)
        with store.reading() as session:
            stored = plans.find(session, asked.plan_id)
        if stored is not None and stored.answer is not None:
            return Plan.model_validate_json(stored.answer)
        from solver import planner

        with kept_for_answers():
            plan = planner.plan(request, progress=progress)
        _keep(store, asked, plan)
        return plan
    finally:
        store.close()


def _keep(store: Store, asked: Asked, plan: Plan) -> None:
    now = time.time()
    with store.writing() as session:
        if plans.find(session, asked.plan_id) is None:
            plans.add(session, plan_row(asked, now))
        result = plans.Result(
            status=plan.status.value,
            answer=plan.model_dump_json(),
            iteration_seconds=plan.iteration_seconds,
            gap=plan.gap,
        )
        plans.finish(session, asked.plan_id, result, now)
