"""Nobody gets in without a key, and with one no further than it reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from service.access import keys
from service.access.caller import Scope
from service.access.opening import ensure_a_key, resolved
from service.app import create_app
from service.cli import app as command_line
from service.problems import ProblemError
from service.settings import Settings
from service.store import Store, schema
from tests.service.access.conftest import FIRST_KEY, Make, bearer
from tests.service.conftest import asking

OPEN = {"/healthz", "/readyz", "/openapi.json", "/docs", "/redoc", "/sign-in", "/sign-out"}
HTML = {"Accept": "text/html"}


def test_every_route_but_the_listed_ones_is_closed(service: TestClient) -> None:
    paths = service.app.openapi()["paths"]  # type: ignore[attr-defined]
    tried = 0
    for path, operations in paths.items():
        for method in operations:
            response = service.request(method, path.replace("{", "").replace("}", ""))
            if path not in OPEN:
                assert response.status_code == 401, (method, path)
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.headers["content-type"] == "application/problem+json"
                tried += 1
    assert tried > 8
    for path in ("/compare", "/plans/x", "/nothing", "/metrics"):
        assert service.get(path).status_code == 401


def test_what_says_that_the_service_lives_is_open(service: TestClient) -> None:
    assert service.get("/healthz").status_code == 200
    assert service.get("/docs").status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer ", "Bearer nonsense", "Basic YTpi", "Bearer a.b.c", "Bearer \xff"]
)
def test_what_is_no_key_opens_nothing(service: TestClient, header: str) -> None:
    response = service.get("/v1/plans", headers={"Authorization": header.encode("latin-1")})
    assert response.status_code == 401


def test_a_key_reaches_as_far_as_its_scope(service: TestClient, make: Make) -> None:
    read, plan, admin = (make(scope=scope) for scope in Scope)
    assert service.get("/v1/plans", headers=read).status_code == 200
    refused = service.post("/v1/plans", json=asking("a"), headers=read)
    assert refused.status_code == 403
    assert "'plan'" in refused.json()["detail"]
    assert service.post("/v1/plans", json=asking("a"), headers=plan).status_code == 202
    assert service.get("/metrics", headers=plan).status_code == 403
    assert service.get("/metrics", headers=admin).status_code != 403


def test_the_bootstrap_key_opens_everything_and_is_made_once(
    service: TestClient, closed: Settings
) -> None:
    assert service.get("/v1/plans", headers=bearer(FIRST_KEY)).status_code == 200
    store = Store(closed.database_url)
    keys.ensure(store, FIRST_KEY)
    (key_id,) = listed(store)
    keys.revoke(store, key_id)
    keys.ensure(store, FIRST_KEY)
    assert listed(store) == [key_id]


def listed(store: Store) -> list[str]:
    from service.store import keys as rows

    with store.reading() as session:
        return [row.id for row in rows.every(session)]


def test_a_revoked_or_expired_key_opens_nothing(service: TestClient, closed: Settings) -> None:
    store = Store(closed.database_url)
    key_id, token = keys.create(store, "n", "t", Scope.READ)
    keys.revoke(store, key_id)
    assert service.get("/v1/plans", headers=bearer(token)).status_code == 401
    _, late = keys.create(store, "n", "t", Scope.READ, days=-1)
    assert service.get("/v1/plans", headers=bearer(late)).status_code == 401
    with pytest.raises(ProblemError):
        keys.revoke(store, key_id)


def test_a_rotated_key_is_good_for_its_grace_only(closed: Settings) -> None:
    store = Store(closed.database_url)
    schema.migrate(store.engine)
    key_id, old = keys.create(store, "n", "t", Scope.READ)
    new = keys.rotate(store, key_id, grace_hours=1)
    assert keys.caller_of(store, old, closed) == keys.caller_of(store, new, closed) is not None
    newest = keys.rotate(store, key_id, grace_hours=0)
    assert keys.caller_of(store, old, closed) is None
    assert keys.caller_of(store, new, closed) is None
    assert keys.caller_of(store, newest, closed) is not None


def test_a_key_is_stored_as_its_digest_only(closed: Settings, tmp_path: Path) -> None:
    store = Store(closed.database_url)
    schema.migrate(store.engine)
    _, token = keys.create(store, "n", "t", Scope.READ)
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("plans.db*"))
    assert keys.digest(token).encode() in content
    assert token.encode() not in content


def test_elsewhere_than_on_loopback_a_key_is_required() -> None:
    settings = Settings(database_url="sqlite://")
    for host in ("127.0.0.1", "localhost", "::1"):
        assert resolved(settings, host).access == "open"
    for host in ("0.0.0.0", "::", "10.1.2.3", "plans.example"):
        assert resolved(settings, host).access == "required"
    trusting = settings.model_copy(update={"access": "open"})
    assert resolved(trusting, "0.0.0.0").access == "open"


def test_a_service_that_nobody_could_ask_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAGECUT_DATABASE_URL", f"sqlite:///{tmp_path}/a.db")
    done = CliRunner().invoke(command_line, ["serve", "--host", "0.0.0.0", "--port", "0"])
    assert done.exit_code == 3
    assert "stagecut keys create" in done.stderr
    assert "STAGECUT_ACCESS=open" in done.stderr
    made = CliRunner().invoke(command_line, ["keys", "create", "ci", "--tenant", "team"])
    assert made.stdout.startswith("stagecut_")
    settings = Settings(access="required")
    store = Store(settings.database_url)
    ensure_a_key(store, settings)
    table = CliRunner().invoke(command_line, ["keys", "list"])
    assert "team" in table.stdout
    (key_id,) = listed(store)
    assert CliRunner().invoke(command_line, ["keys", "rotate", key_id]).exit_code == 0
    assert CliRunner().invoke(command_line, ["keys", "revoke", key_id]).exit_code == 0
    assert CliRunner().invoke(command_line, ["keys", "revoke", key_id]).exit_code == 2
    with pytest.raises(ProblemError):
        ensure_a_key(store, settings)


def test_a_connection_from_elsewhere_needs_a_key_whatever_started_the_service(
    settings: Settings,
) -> None:
    app = create_app(settings)
    with TestClient(app, base_url="http://10.1.2.3", raise_server_exceptions=False) as outside:
        assert outside.get("/v1/plans").status_code == 401
    with TestClient(app, base_url="http://127.0.0.1") as inside:
        assert inside.get("/v1/plans").status_code == 200


def test_a_browser_signs_in_and_out(service: TestClient, make: Make) -> None:
    away = service.get("/compare", headers=HTML)
    assert (away.status_code, away.headers["location"]) == (303, "/sign-in?next=/compare")
    assert "password" in service.get("/sign-in").text
    assert service.post("/sign-in", data={"key": "wrong"}).status_code == 401
    token = make()["Authorization"].removeprefix("Bearer ")
    entered = service.post("/sign-in", data={"key": token, "next": "/compare"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/compare")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert service.get("/compare", headers=HTML).status_code == 200
    assert service.get("/v1/plans").status_code == 200
    assert "signed in for one" in service.get("/sign-in").text
    service.post("/sign-out")
    assert service.get("/compare", headers=HTML).status_code == 303


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "", "/a\nb"]
)
def test_signing_in_leads_nowhere_else(service: TestClient, make: Make, target: str) -> None:
    token = make()["Authorization"].removeprefix("Bearer ")
    entered = service.post("/sign-in", data={"key": token, "next": target})
    assert entered.headers["location"] == "/"
