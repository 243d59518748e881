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
from tests.service.postgresql.cluster import Cluster
from tests.service.postgresql.conftest import Deployment

pytestmark = pytest.mark.slow

RECOVERY_SECONDS = 15.0
UNFINISHED = ("queued", "running")


def submit(url: str, models: Sequence[str]) -> dict[str, str]:
    """Ask for a plan of every model; plan ids by model."""
    with Client(url) as client:
        return {model: client.submit(asking(model)).id for model in models}


def wait_for_start(deployment: Deployment, count: int) -> None:
    until = time.monotonic() + 60
    while len(deployment.solves()) < count:
        assert time.monotonic() < until, "no solve began"
        time.sleep(0.05)


def finished(url: str, plan_ids: dict[str, str], seconds: float = 90.0) -> list[PlanDocument]:
    """All the plans, once none is unfinished; a service that is down is waited for."""
    until = time.monotonic() + seconds
    with Client(url) as client:
        while True:
            try:
                plans = [client.read(plan_id) for plan_id in plan_ids.values()]
                if not any(plan.status in UNFINISHED for plan in plans):
                    return plans
            except (httpx2.TransportError, httpx2.HTTPStatusError):
                pass
            assert time.monotonic() < until, "not everything ended"
            time.sleep(0.1)


def report(recovery: float, since: str) -> None:
    print(f"\nrecovered {recovery:.1f} s after {since}")
    assert recovery < RECOVERY_SECONDS


def test_a_killed_worker_is_replaced_by_another(deployment: Deployment) -> None:
    _, url = deployment.server()
    workers = {deployment.worker(), deployment.worker()}
    held = submit(url, ["sleep-10"])
    wait_for_start(deployment, 1)
    (first,) = deployment.who_solves()
    deployment.kill(first)
    killed_at = time.monotonic()
    others = submit(url, ["sleep-0.1", "sleep-0.2"])
    assert [plan.status for plan in finished(url, others)] == ["succeeded"] * 2
    wait_for_start(deployment, 4)
    report(time.monotonic() - killed_at, "the worker was killed")
    assert set(deployment.who_solves()) == workers
    assert Counter(deployment.solves()) == {"sleep-10": 2, "sleep-0.1": 1, "sleep-0.2": 1}
    (plan,) = finished(url, held)
    assert plan.status == "succeeded"
    assert plan.iteration_seconds == 1.5


def test_a_killed_server_loses_nothing_that_it_accepted(deployment: Deployment) -> None:
    server, url = deployment.server(works=True)
    port = int(url.rpartition(":")[2])
    plan_ids = submit(url, ["sleep-3", "sleep-3.5", "sleep-0.1", "sleep-0.2"])
    wait_for_start(deployment, 2)
    deployment.kill(server)
    deployment.server(works=True, port=port)
    up_at = time.monotonic()
    plans = finished(url, plan_ids)
    report(time.monotonic() - up_at - 3.5, "the server was up again")
    assert [plan.status for plan in plans] == ["succeeded"] * 4


def test_a_killed_database_loses_nothing(cluster: Cluster, deployment: Deployment) -> None:
    _, url = deployment.server()
    deployment.worker()
    plan_ids = submit(url, ["sleep-4", "sleep-4.5", "sleep-0.1", "sleep-0.2", "sleep-0.3"])
    wait_for_start(deployment, 2)
    cluster.kill()
    time.sleep(1.0)
    cluster.start()
    up_at = time.monotonic()
    after = finished(url, submit(url, ["sleep-0.4"]) | plan_ids)
    recovery = time.monotonic() - up_at - 4.5
    assert [plan.status for plan in after] == ["succeeded"] * 6
    assert Counter(deployment.solves()).total() == 6
    report(recovery, "the database was up again")


def test_a_killed_server_on_sqlite_takes_its_work_up_again(tmp_path: Path, solve_log: Path) -> None:
    deployment = Deployment(f"sqlite:///{tmp_path}/plans.db", solve_log)
    try:
        server, url = deployment.server(works=True)
        port = int(url.rpartition(":")[2])
        plan_ids = submit(url, ["sleep-3", "sleep-0.1", "sleep-0.2", "sleep-0.3"])
        wait_for_start(deployment, 2)
        deployment.kill(server)
        deployment.server(works=True, port=port)
        assert [plan.status for plan in finished(url, plan_ids)] == ["succeeded"] * 4
    finally:
        deployment.stop()


def test_a_stopped_worker_hands_its_jobs_back_at_once(deployment: Deployment) -> None:
    _, url = deployment.server()
    workers = {deployment.worker(), deployment.worker()}
    plan_ids = submit(url, ["sleep-10"])
    wait_for_start(deployment, 1)
    deployment.terminate(deployment.who_solves()[0])
    stopped_at = time.monotonic()
    wait_for_start(deployment, 2)
    assert time.monotonic() - stopped_at < 5.5  # no waiting for its heartbeat to run out
    assert set(deployment.who_solves()) == workers
    assert finished(url, plan_ids)[0].status == "succeeded"
