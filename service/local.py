"""Work in this process with a store beside it: what is there already is not solved again, and what
requests name is looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from service.clusters import ClusterDocument, unknown_cluster, with_cluster
from service.console.standard_output import kept_for_answers
from service.jobs.fits import with_known_calibration
from service.jobs.intake import Asked, plan_row
from service.migrate import migrate
from service.store import Store, calibrations, clusters, plans
from solver.calibrate.measured import RunsToFit
from solver.calibrations import Calibration
from solver.plan import Evaluation, Plan
from solver.request import PlanRequest


def plan_with_store(
    request: PlanRequest, url: str, progress: Callable[[Any], None] | None = None
) -> Plan:
    """The plan from the store at ``url``, or else solved here and stored there."""
    with _opened(url) as store:
        asked = Asked(_resolved(store, request))
        with store.reading() as session:
            stored = plans.find(session, asked.plan_id)
        if stored is not None and stored.answer is not None:
            return Plan.model_validate_json(stored.answer)
        from service.all_cores import plan_on_all_cores

        with kept_for_answers():
            plan = plan_on_all_cores(asked.request, progress)
        _keep(store, asked, plan)
        return plan


def evaluate_with_store(request: PlanRequest, url: str) -> Evaluation:
    """The evaluation of a request whose names are looked up in the store at ``url``."""
    from solver import planner

    with _opened(url) as store:
        asked = _resolved(store, request)
    with kept_for_answers():
        return planner.evaluate(asked)


def calibrate_with_store(runs: RunsToFit, url: str) -> Calibration:
    """Fit a calibration to the runs; the store at ``url`` keeps it as the newest of its name."""
    from solver import planner

    with _opened(url) as store:
        with kept_for_answers():
            found = planner.calibrate(runs)
        with store.writing() as session:
            calibrations.keep(session, found, time.time())
    return found


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    """The store at ``url``, at the newest schema."""
    store = Store(url)
    try:
        migrate(store)
        yield store
    finally:
        store.close()


def _resolved(store: Store, request: PlanRequest) -> PlanRequest:
    """The request with what it names in the names' place: cluster and calibration."""
    name = request.cluster.name
    if name is not None:
        with store.reading() as session:
            text = clusters.find(session, name)
        if text is None:
            raise unknown_cluster(name)
        request = with_cluster(request, ClusterDocument.model_validate_json(text))
    return with_known_calibration(request, store)


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
