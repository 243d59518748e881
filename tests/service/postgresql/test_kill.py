"""Whatever dies, every accepted request ends with its answer, and nothing is solved for nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from service.client import Client
from service.documents import PlanDocument
from tests.service.conftest import asking
from tests.service.eventually import eventually
from tests.service.postgresql.cluster import Cluster
from tests.service.postgresql.conftest import Deployment
from tests.service.toy_planner import gate

pytestmark = pytest.mark.slow

UNFINISHED = ("queued", "running")


def submit(url: str, models: Sequence[str]) -> dict[str, str]:
    """Ask for a plan of every model; plan ids by model."""
    with Client(url) as client:
        return {model: client.submit(asking(model)).id for model in models}


def wait_for_start(deployment: Deployment, count: int) -> None:
    eventually(lambda: len(deployment.solves()) >= count, f"solve {count}")


def finished(url: str, plan_ids: dict[str, str]) -> list[PlanDocument]:
    """All the plans, once none is unfinished; a service that is down is waited for."""

    def ended() -> list[PlanDocument] | None:
        try:
            plans = [client.read(plan_id) for plan_id in plan_ids.values()]
        except (httpx2.TransportError, httpx2.HTTPStatusError):
            return None
        return None if any(plan.status in UNFINISHED for plan in plans) else plans

    with Client(url) as client:
        return eventually(ended, "the end of all plans") or []


def test_a_killed_worker_is_replaced_by_another(deployment: Deployment) -> None:
    _, url = deployment.server()
    workers = {deployment.worker(), deployment.worker()}
    held = submit(url, ["until-replaced"])
    wait_for_start(deployment, 1)
    (first,) = deployment.who_solves()
    deployment.kill(first)
    others = submit(url, ["sleep-0.1", "sleep-0.2"])
    assert [plan.status for plan in finished(url, others)] == ["succeeded"] * 2
    wait_for_start(deployment, 4)
    gate(deployment.solve_log, "replaced").touch()
    assert set(deployment.who_solves()) == workers
    assert Counter(deployment.solves()) == {"until-replaced": 2, "sleep-0.1": 1, "sleep-0.2": 1}
    (plan,) = finished(url, held)
    assert plan.status == "succeeded"
    assert plan.iteration_seconds == 1.5


def test_a_killed_server_loses_nothing_that_it_accepted(deployment: Deployment) -> None:
    server, url = deployment.server(works=True)
    plan_ids = submit(url, ["until-killed", "until-then", "sleep-0.1", "sleep-0.2"])
    wait_for_start(deployment, 2)
    deployment.kill(server)
    for name in ("killed", "then"):
        gate(deployment.solve_log, name).touch()
    _, url = deployment.server(works=True)
    assert [plan.status for plan in finished(url, plan_ids)] == ["succeeded"] * 4


def test_a_killed_database_loses_nothing(cluster: Cluster, deployment: Deployment) -> None:
    deployment.set({"STAGECUT_HEARTBEAT_TIMEOUT_SECONDS": "120"})  # nobody takes it for dead
    _, url = deployment.server()
    deployment.worker()
    plan_ids = submit(url, ["until-killed", "until-then", "sleep-0.1", "sleep-0.2", "sleep-0.3"])
    wait_for_start(deployment, 2)
    cluster.kill()
    gate(deployment.solve_log, "killed").touch()  # ends while there is no database
    time.sleep(1.0)
    cluster.start()
    gate(deployment.solve_log, "then").touch()
    after = finished(url, submit(url, ["sleep-0.4"]) | plan_ids)
    assert [plan.status for plan in after] == ["succeeded"] * 6
    assert Counter(deployment.solves()).total() == 6


def test_a_killed_server_on_sqlite_takes_its_work_up_again(tmp_path: Path, solve_log: Path) -> None:
    deployment = Deployment(f"sqlite:///{tmp_path}/plans.db", solve_log)
    try:
        server, url = deployment.server(works=True)
        plan_ids = submit(url, ["until-killed", "sleep-0.1", "sleep-0.2", "sleep-0.3"])
        wait_for_start(deployment, 2)
        deployment.kill(server)
        gate(solve_log, "killed").touch()
        _, url = deployment.server(works=True)
        assert [plan.status for plan in finished(url, plan_ids)] == ["succeeded"] * 4
    finally:
        deployment.stop()


def test_a_stopped_worker_hands_its_jobs_back_at_once(deployment: Deployment) -> None:
    deployment.set({"STAGECUT_HEARTBEAT_TIMEOUT_SECONDS": "3600"})  # nobody waits for that
    _, url = deployment.server()
    workers = {deployment.worker(), deployment.worker()}
    plan_ids = submit(url, ["until-taken-over"])
    wait_for_start(deployment, 1)
    deployment.terminate(deployment.who_solves()[0])
    wait_for_start(deployment, 2)
    gate(deployment.solve_log, "taken-over").touch()
    assert set(deployment.who_solves()) == workers
    assert finished(url, plan_ids)[0].status == "succeeded"
