"""Servers and workers on one database share a search out, and answer what one process answers."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from service.client import Client
from service.jobs.fan_out import KIND
from service.settings import Settings
from service.store import Store
from service.store.tables import JobRow, PlanRow
from solver import planner
from solver.request import PlanRequest
from tests.service.postgresql.conftest import Deployment
from tests.service.postgresql.test_kill import finished, submit, wait_for_start

pytestmark = pytest.mark.slow

LARGE: dict[str, Any] = {
    "model": {"name": "llama-3.1-8b"},
    "cluster": {"device": "A100-SXM4-40GB", "nodes": 2, "devices_per_node": 8},
    "training": {"global_batch_size": 64, "sequence_length": 8192},
    "recompute": {"overlap": "communication"},
}
"""A search of 1,207 layouts, of which some forty are solved."""


def test_two_servers_and_two_workers_answer_what_one_process_does(
    deployment: Deployment, database_url: str
) -> None:
    alone = {"STAGECUT_PLANNER": "solver.planner", "STAGECUT_SOLVER_PROCESSES": "1"}
    deployment.set(alone)
    _, one = deployment.server()
    _, other = deployment.server()
    for _ in range(2):
        deployment.worker()
    with Client(one) as client:
        plan_id = client.submit(LARGE).id
    with Client(other) as client:
        assert client.submit(LARGE).id == plan_id
        owners, until = set(), time.monotonic() + 120
        store = Store(Settings(database_url=database_url).database_url)
        while client.read(plan_id).status in ("queued", "running"):
            assert time.monotonic() < until
            with store.reading() as session:
                found = session.scalars(
                    select(JobRow.owner).join(PlanRow).where(PlanRow.kind == KIND)
                )
                owners |= {owner.rpartition("/")[0] for owner in found if owner}
            time.sleep(0.1)
        store.close()
    answer = httpx2.get(f"{other}/v1/plans/{plan_id}").json()
    assert len(owners) == 2
    here = planner.plan(PlanRequest.model_validate(LARGE)).model_dump(mode="json")
    for plan in (answer, here):
        assert plan["solver"].pop("seconds") > 0
        del plan["request"]  # the service fills in the defaults
    assert here["solver"]["layouts_considered"] >= 500
    assert {name: answer[name] for name in here} == here


def test_parts_outlive_the_worker_that_dealt_them_out(deployment: Deployment) -> None:
    _, url = deployment.server()
    deployment.worker()
    asked = submit(url, ["parts-6-sleep-1"])
    wait_for_start(deployment, 3)
    (first, *_) = deployment.who_solves()
    deployment.worker()
    time.sleep(1.5)
    deployment.kill(first)
    (plan,) = finished(url, asked)
    assert plan.status == "succeeded"
    assert plan.error == "7 [0, 1, 2, 3, 4, 5]"
    assert deployment.solves().count("gather") == 1
    assert 6 <= deployment.solves().count("sleep-1") <= 6 + 2  # two were at work when it died
    other = submit(url, ["quick"])
    assert finished(url, other)[0].status == "succeeded"
