"""Logs, metrics and readiness say what is so."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest
from alembic import command
from fastapi.testclient import TestClient

from service.app import create_app
from service.operations import logs
from service.operations.readiness import hindrance
from service.settings import Settings
from service.store import Store, schema, workers
from tests.service.conftest import WAIT, asking


def test_a_request_keeps_its_id_or_gets_one(service: TestClient) -> None:
    given = service.get("/healthz", headers={"X-Request-ID": "job-17.a"})
    assert given.headers["x-request-id"] == "job-17.a"
    made = service.get("/healthz").headers["x-request-id"]
    assert len(made) == 32
    for nonsense in ("a b", "x" * 65, "<script>"):
        other = service.get("/healthz", headers={"X-Request-ID": nonsense})
        assert other.headers["x-request-id"] != nonsense


def test_a_problem_names_its_request(service: TestClient) -> None:
    for path in ("/v1/plans/nothing", "/nothing"):
        response = service.get(path, headers={"X-Request-ID": "r-1"})
        assert response.json()["request_id"] == "r-1"


def test_a_log_line_is_one_json_object_with_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    token = logs.request_id.set("r-2")
    try:
        logs.configure("info", "json")
        logging.getLogger("service.test").info("GET %s", "/x\n", extra={"milliseconds": 1.5})
        logs.configure("warning", "text")
        logging.getLogger("service.test").info("not said")
        logging.getLogger("service.test").warning("said", extra={"plan": "p"})
    finally:
        logs.request_id.reset(token)
        root.handlers[:] = handlers
        root.setLevel(level)
    first, second = capsys.readouterr().err.splitlines()
    line = json.loads(first)
    assert line["message"] == "GET /x\n"
    assert (line["level"], line["request_id"], line["milliseconds"]) == ("info", "r-2", 1.5)
    assert second.endswith("WARNING said plan=p request_id=r-2")


def value(page: str, line: str) -> float:
    found = [float(text.rpartition(" ")[2]) for text in page.splitlines() if text.startswith(line)]
    return sum(found)


def test_metrics_count_what_happened(service: TestClient) -> None:
    before = service.get("/metrics").text
    service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    service.post("/v1/plans", json=asking("quick"))
    service.get("/v1/plans/nothing")
    service.post("/v1/plans", json=asking("until-never"))
    after = service.get("/metrics").text
    for line, grown in {
        'stagecut_answers_total{source="store"}': 1,
        'stagecut_answers_total{source="accepted"}': 2,
        'stagecut_solve_seconds_count{status="succeeded"}': 1,
        "stagecut_gap_at_finish_count": 1,
        'stagecut_http_requests_total{method="GET",route="/v1/plans/{plan_id}",status="404"}': 1,
    }.items():
        assert value(after, line) - value(before, line) == grown, line
    assert value(after, "stagecut_jobs{") == 1
    assert value(after, "stagecut_workers ") == 1


def test_addresses_that_do_not_exist_make_no_new_series(service: TestClient) -> None:
    for number in range(5):
        service.get(f"/nothing-{number}")
    page = service.get("/metrics").text
    assert "nothing-1" not in page


def test_a_service_is_ready_when_somebody_solves(settings: Settings, solve_log: Path) -> None:
    assert solve_log.exists()
    idle = settings.model_copy(update={"works": False})
    with TestClient(create_app(idle)) as service:
        refused = service.get("/readyz")
        assert refused.status_code == 503
        assert "stagecut worker" in refused.json()["detail"]
        assert service.get("/healthz").status_code == 200
        with TestClient(create_app(settings)):
            assert service.get("/readyz").json()["status"] == "ready"
        assert service.get("/readyz").status_code == 503


def test_a_service_on_another_schema_is_not_ready(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/old.db")
    schema.migrate(store.engine)
    command.downgrade(schema.configuration(store.engine), "-1")
    assert "stagecut migrate" in (hindrance(store) or "")
    schema.migrate(store.engine)
    assert "stagecut worker" in (hindrance(store) or "")
    with store.writing() as session:
        workers.seen(session, "one", time.time())
    assert hindrance(store) is None
    with store.writing() as session:
        workers.seen(session, "one", time.time() - 60)
    assert hindrance(store) is not None
