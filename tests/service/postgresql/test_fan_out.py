"""Servers and workers on one database share a search out, and answer what one process answers."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from service.client import Client
from solver import planner
from solver.request import PlanRequest
from tests.service.postgresql.conftest import Deployment
from tests.service.postgresql.test_kill import finished, submit, wait_for_start
from tests.service.toy_planner import gate

pytestmark = pytest.mark.slow

LARGE: dict[str, Any] = {
    "model": {"name": "llama-3.1-8b"},
    "cluster": {"device": "A100-SXM4-40GB", "nodes": 2, "devices_per_node": 8},
    "training": {"global_batch_size": 64, "sequence_length": 8192},
    "recompute": {"overlap": "communication"},
    "solver": {"time_limit_seconds": 900},
}
"""A search of 1,207 layouts, of which some forty are solved."""


def test_workers_share_a_search_out(deployment: Deployment) -> None:
    deployment.set({"STAGECUT_SOLVER_PROCESSES": "2"})
    _, url = deployment.server()
    workers = {deployment.worker(), deployment.worker()}
    asked = submit(url, ["parts-4-until-shared"])
    wait_for_start(deployment, 5)  # each of the workers has two parts at work
    gate(deployment.solve_log, "shared").touch()
    (plan,) = finished(url, asked)
    assert plan.error == "7 [0, 1, 2, 3]"
    assert set(deployment.who_solves()[1:5]) == workers


def test_two_servers_and_two_workers_answer_what_one_process_does(deployment: Deployment) -> None:
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
    finished(other, {"large": plan_id})
    answer = httpx2.get(f"{other}/v1/plans/{plan_id}").json()
    here = planner.plan(PlanRequest.model_validate(LARGE)).model_dump(mode="json")
    for plan in (answer, here):
        assert plan["solver"].pop("seconds") > 0
        del plan["request"]  # the service fills in the defaults
    assert here["solver"]["layouts_considered"] >= 500
    assert {name: answer[name] for name in here} == here


def test_parts_outlive_the_worker_that_dealt_them_out(deployment: Deployment) -> None:
    _, url = deployment.server()
    deployment.worker()
    asked = submit(url, ["parts-6-until-killed"])
    wait_for_start(deployment, 3)
    (first, *_) = deployment.who_solves()
    deployment.worker()
    wait_for_start(deployment, 5)  # each of the workers has two parts at work
    deployment.kill(first)
    gate(deployment.solve_log, "killed").touch()
    (plan,) = finished(url, asked)
    assert plan.status == "succeeded"
    assert plan.error == "7 [0, 1, 2, 3, 4, 5]"
    assert deployment.solves().count("gather") == 1
    assert deployment.solves().count("until-killed") == 6 + 2  # two were at work when it died
    other = submit(url, ["quick"])
    assert finished(url, other)[0].status == "succeeded"
