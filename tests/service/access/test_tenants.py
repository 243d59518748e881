"""Tenants share answers and see nothing of each other; keys may ask so much and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from service.access.caller import Scope
from tests.service.access.conftest import Make
from tests.service.conftest import WAIT, asking
from tests.service.toy_planner import gate


def ask(service: TestClient, model: str, key: dict[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = service.post(
        "/v1/plans", json=asking(model), headers=key | WAIT
    ).json()
    return answer


def listed(service: TestClient, key: dict[str, str]) -> list[str]:
    return [plan["model"] for plan in service.get("/v1/plans", headers=key).json()["plans"]]


def test_a_plan_is_seen_by_those_who_asked_for_it(
    service: TestClient, make: Make, solve_log: Path
) -> None:
    one, same, other = make("one"), make("one"), make("other")
    plan = ask(service, "a", one)
    address = f"/v1/plans/{plan['id']}"
    assert service.get(address, headers=one).json() == plan
    assert service.get(address, headers=same).status_code == 200
    assert listed(service, same) == ["a"]
    assert listed(service, other) == []
    absent = service.get("/v1/plans/nothing", headers=other).json()
    for path in ("", "/events"):
        hidden = service.get(address + path, headers=other)
        assert hidden.status_code == 404
        assert hidden.json()["type"] == absent["type"]
    for path in ("", "/parts/memory", "/pictures/timeline.svg", "/trace.json", "/report.html"):
        assert service.get(f"/plans/{plan['id']}{path}", headers=other).status_code == 404
    assert service.delete(address, headers=other).status_code == 404
    assert ask(service, "a", other) == plan
    assert service.get(address, headers=other).status_code == 200
    assert solve_log.read_text().splitlines() == ["a"]


def test_what_one_removes_stays_with_the_other(service: TestClient, make: Make) -> None:
    one, other = make("one"), make("other")
    address = f"/v1/plans/{ask(service, 'a', one)['id']}"
    ask(service, "a", other)
    assert service.delete(address, headers=one).status_code == 204
    assert service.get(address, headers=one).status_code == 404
    assert service.get(address, headers=other).status_code == 200
    assert service.delete(address, headers=other).status_code == 204
    assert service.get(address, headers=other).status_code == 404


def test_who_cancels_stops_no_solve_that_another_waits_for(
    service: TestClient, make: Make, solve_log: Path
) -> None:
    one, other = make("one"), make("other")
    model = asking("until-cancelled")
    address = service.post("/v1/plans", json=model, headers=one).headers["location"]
    service.post("/v1/plans", json=model, headers=other)
    assert service.delete(address, headers=one).status_code == 204
    gate(solve_log, "cancelled").touch()
    assert ask(service, "until-cancelled", other)["status"] == "succeeded"
    assert solve_log.read_text().split() == ["until-cancelled"]


def test_batches_are_their_tenants(service: TestClient, make: Make) -> None:
    one, other = make("one"), make("other")
    body = {"cases": [{"request": asking("a")}]}
    batch = service.post("/v1/batches", json=body, headers=one | WAIT).json()
    for path in ("", "/junit", "/summary"):
        assert service.get(f"/v1/batches/{batch['id']}{path}", headers=one).status_code == 200
        assert service.get(f"/v1/batches/{batch['id']}{path}", headers=other).status_code == 404
    against = service.post("/v1/batches", json=body | {"against": batch["id"]}, headers=other)
    assert against.json()["field"] == "against"
    plan_id = batch["cases"][0]["plan_id"]
    assert service.get(f"/v1/plans/{plan_id}", headers=one).status_code == 200
    compared = {"request": asking("b"), "expectations": {"max_slowdown_against": plan_id}}
    refused = service.post("/v1/batches", json={"cases": [compared]}, headers=other)
    assert refused.json()["field"] == "cases[0].expectations.max_slowdown_against"


def test_an_administrator_of_a_tenant_sees_that_tenant_only(
    service: TestClient, make: Make
) -> None:
    plan = ask(service, "a", make("one"))
    admin = make("other", Scope.ADMIN)
    assert service.get(f"/v1/plans/{plan['id']}", headers=admin).status_code == 404


def test_a_key_asks_so_often_a_minute(service: TestClient, make: Make) -> None:
    limited, free = make(requests_per_minute=3), make()
    statuses = [service.get("/v1/models", headers=limited).status_code for _ in range(5)]
    assert statuses[:3] == [200] * 3
    assert 429 in statuses
    refused = service.get("/v1/models", headers=limited)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json()["type"].endswith("too-many-requests")
    assert service.get("/v1/models", headers=free).status_code == 200


def test_a_key_asks_for_so_many_different_plans_a_day(service: TestClient, make: Make) -> None:
    limited = make(plans_per_day=2)
    assert ask(service, "a", limited)["status"] == "succeeded"
    assert ask(service, "b", limited)["status"] == "succeeded"
    assert ask(service, "a", limited)["status"] == "succeeded"
    refused = service.post("/v1/plans", json=asking("c"), headers=limited)
    assert refused.status_code == 429
    assert refused.json()["type"].endswith("quota-used-up")
    assert "retry-after" in refused.headers
    body = {"cases": [{"request": asking("c")}]}
    assert service.post("/v1/batches", json=body, headers=limited).status_code == 429
