"""A service whose store holds two plans, and one that cannot be."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.jobs.intake import Asked, plan_row
from service.schema_examples import sample
from service.store import Store, plans
from solver.request import PlanRequest
from tests.service.conftest import TOY, patient
from tests.service.pages.plans import sample_plan


def keep(store: Store, request: PlanRequest | Asked, answer: str, status: str = "succeeded") -> str:
    """Store an answer to a request; the plan's id."""
    asked = request if isinstance(request, Asked) else Asked(request)
    now = time.time()
    with store.writing() as session:
        plans.add(session, plan_row(asked, now))
        known = json.loads(answer)
        result = plans.Result(
            status,
            answer=answer,
            iteration_seconds=known.get("iteration_seconds"),
            gap=known.get("gap"),
        )
        plans.finish(session, asked.plan_id, result, now)
    return asked.plan_id


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service over the toy planner."""
    folder = tmp_path_factory.mktemp("store")
    settings = patient(database_url=f"sqlite:///{folder}/plans.db", planner=TOY, solver_processes=1)
    with TestClient(create_app(settings), follow_redirects=False) as client:
        yield client


@pytest.fixture(scope="session")
def plan_ids(client: TestClient) -> list[str]:
    """Two finished plans and an infeasible one."""
    store: Store = client.app.state.store  # type: ignore[attr-defined]
    answer = sample_plan().plan.model_dump_json()
    request = PlanRequest.model_validate(sample("request"))
    other = request.model_copy(
        update={"cluster": request.cluster.model_copy(update={"memory_bytes": 3e10})}
    )
    third = request.model_copy(
        update={"cluster": request.cluster.model_copy(update={"memory_bytes": 1e9})}
    )
    lacking = {
        "id": "x",
        "status": "infeasible",
        "shortfall": {
            "stage": 1,
            "missing_bytes": 2e9,
            "needed_bytes": 3e9,
            "memory_limit_bytes": 1e9,
            "layout": sample("plan")["layout"],
        },
    }
    return [
        keep(store, request, answer),
        keep(store, other, answer),
        keep(store, third, json.dumps(lacking), "infeasible"),
    ]
