"""Plans are carried from one store to another and stay what they are."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from service.app import create_app
from service.carrying import export, import_lines
from service.cli import app
from service.problems import ProblemError
from service.settings import Settings
from service.store import Store, plans, schema
from tests.service.conftest import WAIT, asking
from tests.service.eventually import eventually


def carried(store: Store) -> list[bytes]:
    file = io.StringIO()
    export(store, file)
    return file.getvalue().encode().splitlines()


@pytest.fixture
def other(tmp_path: Path) -> Store:
    store = Store(f"sqlite:///{tmp_path}/other.db")
    schema.migrate(store.engine)
    return store


def test_another_store_answers_with_the_same_plans(
    service: TestClient, settings: Settings, other: Store, solve_log: Path
) -> None:
    made = [service.post("/v1/plans", json=asking(m), headers=WAIT).json() for m in ("a", "b")]
    service.post("/v1/plans", json=asking("until-never"))
    eventually(lambda: "until-never" in solve_log.read_text(), "the third solve")
    lines = carried(Store(settings.database_url))
    assert len(lines) == 2
    assert import_lines(other, lines) == (2, 0)
    assert import_lines(other, lines) == (0, 2)
    assert carried(other) == lines
    elsewhere = settings.model_copy(update={"database_url": other.url})
    with TestClient(create_app(elsewhere)) as second:
        for plan, model in zip(made, ("a", "b"), strict=True):
            again = second.post("/v1/plans", json=asking(model))
            assert (again.status_code, again.json()) == (200, plan)
    assert solve_log.read_text().split() == ["a", "b", "until-never"]


def test_a_bad_line_is_named_and_nothing_is_stored(
    service: TestClient, settings: Settings, other: Store
) -> None:
    service.post("/v1/plans", json=asking("a"), headers=WAIT)
    (good,) = carried(Store(settings.database_url))
    foreign = json.dumps(json.loads(good) | {"id": "another"}).encode()
    for bad in (b"{", b"[]", b"{}", good.replace(b'"status"', b'"state"'), foreign):
        with pytest.raises(ProblemError, match="line 3"):
            import_lines(other, [good, b"", bad])
    with other.reading() as session:
        assert plans.page(session, 10) == []


def test_the_commands_carry_plans(service: TestClient, settings: Settings, tmp_path: Path) -> None:
    service.post("/v1/plans", json=asking("a"), headers=WAIT)
    file, target = str(tmp_path / "plans.jsonl"), f"sqlite:///{tmp_path}/new.db"
    run = CliRunner().invoke
    assert run(app, ["store", "export", file, "--store", settings.database_url]).exit_code == 0
    done = run(app, ["store", "import", file, "--store", target])
    assert "1 plans imported, 0 were there." in done.stderr
    assert run(app, ["store", "import", str(tmp_path / "none"), "--store", target]).exit_code == 2
