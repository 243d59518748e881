"""Planning in this process with a store beside it: what is there already is not solved again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from service.clusters import ClusterDocument, unknown_cluster, with_cluster
from service.console.standard_output import kept_for_answers
from service.jobs.intake import Asked, plan_row
from service.migrate import migrate
from service.store import Store, clusters, plans
from solver.plan import Plan
from solver.request import PlanRequest


def plan_with_store(
    request: PlanRequest, url: str, progress: Callable[[Any], None] | None = None
) -> Plan:
    """The plan from the store at ``url``, or else solved here and stored there."""
    store = Store(url)
    try:
        migrate(store)
        asked = Asked(_resolved(store, request))
        with store.reading() as session:
            stored = plans.find(session, asked.plan_id)
        if stored is not None and stored.answer is not None:
            return Plan.model_validate_json(stored.answer)
        from solver import planner

        with kept_for_answers():
            plan = planner.plan(asked.request, progress=progress)
        _keep(store, asked, plan)
        return plan
    finally:
        store.close()


def _resolved(store: Store, request: PlanRequest) -> PlanRequest:
    """The request with the stored cluster that it names in the name's place."""
    name = request.cluster.name
    if name is None:
        return request
    with store.reading() as session:
        text = clusters.find(session, name)
    if text is None:
        raise unknown_cluster(name)
    return with_cluster(request, ClusterDocument.model_validate_json(text))


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
