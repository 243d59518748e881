"""Plans over HTTP: asked for once, answered from the store, listed, cancelled."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from service import context
from service.app import create_app
from service.settings import Settings
from solver import identity
from tests.service.conftest import WAIT, asking
from tests.service.eventually import eventually
from tests.service.toy_planner import gate


def until_finished(service: TestClient, url: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        plan: dict[str, Any] = service.get(url).json()
        return None if plan["status"] in ("queued", "running") else plan

    return eventually(ended, f"the end of {url}") or {}


def test_a_plan_is_answered_within_the_wait(service: TestClient) -> None:
    response = service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    assert response.status_code == 200
    assert response.json()["status"] == "succeeded"
    assert response.headers["preference-applied"] == "wait=300"


def test_without_a_wait_work_is_accepted_and_its_place_named(service: TestClient) -> None:
    response = service.post("/v1/plans", json=asking("quick"))
    assert response.status_code == 202
    assert response.json()["status"] in ("queued", "running")
    plan = until_finished(service, response.headers["location"])
    assert plan["iteration_seconds"] == 1.5


def test_a_wait_that_is_too_short_ends_in_202(service: TestClient) -> None:
    started = time.monotonic()
    response = service.post("/v1/plans", json=asking("until-never"), headers={"Prefer": "wait=1"})
    assert response.status_code == 202
    assert 1 <= time.monotonic() - started < 200  # where none is told, it may last 300


def test_the_same_request_is_solved_once(service: TestClient, solve_log: Path) -> None:
    first = service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    reordered = dict(reversed(asking("quick", training={"precision": "bf16"}).items()))
    assert first.status_code == 200, first.text
    assert first.json()["status"] == "succeeded", first.text
    again = service.post("/v1/plans", json=reordered)
    assert again.status_code == 200, again.text
    assert again.content == first.content
    assert solve_log.read_text().splitlines() == ["quick"]


def test_another_request_is_another_plan(service: TestClient) -> None:
    one = service.post("/v1/plans", json=asking("quick"), headers=WAIT).json()
    other = service.post(
        "/v1/plans", json=asking("quick", layout={"tensor_parallel": 2}), headers=WAIT
    ).json()
    assert one["id"] != other["id"]


def test_many_who_ask_at_once_cause_one_solve(service: TestClient, solve_log: Path) -> None:
    def ask(number: int) -> Response:
        if number == 31:
            gate(solve_log, "many-ask").touch()
        return service.post("/v1/plans", json=asking("until-many-ask"), headers=WAIT)

    with ThreadPoolExecutor(32) as threads:
        responses = list(threads.map(ask, range(100)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert solve_log.read_text().splitlines() == ["until-many-ask"]


def test_progress_is_shown_while_it_runs(service: TestClient) -> None:
    url = service.post("/v1/plans", json=asking("until-never")).headers["location"]

    def getting_on() -> dict[str, Any] | None:
        plan: dict[str, Any] = service.get(url).json()
        return plan if "progress" in plan else None

    plan = eventually(getting_on, "progress") or {}
    assert plan["status"] == "running"
    assert plan["progress"] == {"incumbent_seconds": 2.0, "bound_seconds": 1.0}


def test_a_cancelled_solve_ends_with_its_process(service: TestClient, solve_log: Path) -> None:
    url = service.post("/v1/plans", json=asking("until-never")).headers["location"]
    eventually(solve_log.read_text, "a solve")
    solver = Path("/proc") / Path(f"{solve_log}.workers").read_text().split()[1]
    assert solver.exists()
    assert service.delete(url).status_code == 204
    assert service.get(url).json()["status"] == "cancelled"
    eventually(lambda: not solver.exists(), "the end of the process")


def test_a_cancelled_plan_can_be_asked_for_again(service: TestClient, solve_log: Path) -> None:
    url = service.post("/v1/plans", json=asking("until-cancelled")).headers["location"]
    service.delete(url)
    gate(solve_log, "cancelled").touch()
    again = service.post("/v1/plans", json=asking("until-cancelled"), headers=WAIT)
    assert again.json()["status"] == "succeeded"


def test_a_finished_plan_can_be_removed(service: TestClient) -> None:
    url = service.post("/v1/plans", json=asking("quick"), headers=WAIT).headers["location"]
    assert service.delete(url).status_code == 204
    assert service.get(url).status_code == 404
    assert service.delete(url).status_code == 404


def test_a_crash_fails_one_plan_with_a_reason_and_not_the_service(service: TestClient) -> None:
    failed = service.post("/v1/plans", json=asking("crash"), headers=WAIT).json()
    assert failed["status"] == "failed"
    assert "SIGKILL" in failed["problem"]["detail"]
    assert service.post("/v1/plans", json=asking("quick"), headers=WAIT).status_code == 200


def test_a_solve_that_eats_memory_fails_alone(service: TestClient) -> None:
    failed = service.post("/v1/plans", json=asking("hungry"), headers=WAIT).json()
    assert failed["status"] == "failed"
    assert failed["problem"]["type"].endswith("solver-out-of-memory")


def test_a_mistake_in_the_solver_is_a_reason_too(service: TestClient) -> None:
    failed = service.post("/v1/plans", json=asking("bug"), headers=WAIT).json()
    assert "a mistake in the solver" in failed["problem"]["detail"]


def test_what_cannot_be_planned_is_refused_and_not_stored(service: TestClient) -> None:
    for headers in ({}, WAIT):
        refused = service.post("/v1/plans", json=asking("refused"), headers=headers)
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["field"] == "layout.tensor_parallel"
        assert refused.json()["hint"] == "Choose 4 or 8."
    assert service.get("/v1/plans").json()["plans"] == []


def test_an_unchanged_plan_is_not_sent_again(service: TestClient) -> None:
    first = service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    read = service.get(first.headers["location"])
    assert read.headers["etag"] == first.headers["etag"]
    again = service.get(first.headers["location"], headers={"If-None-Match": read.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_the_list_is_paged_newest_first(service: TestClient) -> None:
    for number in range(5):
        service.post("/v1/plans", json=asking(f"model-{number}"), headers=WAIT)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        parameters = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = service.get("/v1/plans", params=parameters).json()
        seen += [plan["model"] for plan in page["plans"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [f"model-{number}" for number in (4, 3, 2, 1, 0)]


def test_the_list_can_be_narrowed_to_a_status(service: TestClient) -> None:
    service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    service.post("/v1/plans", json=asking("bug"), headers=WAIT)
    failed = service.get("/v1/plans", params={"status": "failed"}).json()["plans"]
    assert [plan["model"] for plan in failed] == ["bug"]


def test_a_cursor_that_is_none_is_refused(service: TestClient) -> None:
    for cursor in ("x", "!!!", "bnVsbA", "WzEsMl0="):
        response = service.get("/v1/plans", params={"cursor": cursor})
        assert response.status_code in (200, 422)
    assert service.get("/v1/plans", params={"cursor": "!!!"}).json()["field"] == "cursor"


def test_an_unknown_plan_is_not_found(service: TestClient) -> None:
    response = service.get("/v1/plans/nothing")
    assert response.status_code == 404
    assert response.json()["title"] == "No such plan"


def test_a_new_solver_version_leaves_old_answers_visible_and_asks_anew(
    settings: Settings, solve_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A body of its own: what is read of a body is remembered, its id under the version too.
    with TestClient(create_app(settings)) as before:
        old = before.post("/v1/plans", json=asking("quick-twice")).headers["location"]
        answer = until_finished(before, old)
    monkeypatch.setattr(identity, "SOLVER_VERSION", "next")
    context._read_again.cache_clear()  # a new version is a new process
    with TestClient(create_app(settings)) as after:
        new = after.post("/v1/plans", json=asking("quick-twice")).headers["location"]
        assert new != old
        assert until_finished(after, new)["status"] == "succeeded"
        assert after.get(old).json() == answer
        listed = {f"/v1/plans/{plan['id']}" for plan in after.get("/v1/plans").json()["plans"]}
        assert listed == {old, new}
    assert solve_log.read_text().split() == ["quick-twice", "quick-twice"]
