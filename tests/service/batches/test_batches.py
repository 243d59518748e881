"""Batches over HTTP and on the command line: all or nothing, judged, compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from service.cli import app
from service.client import Client
from service.settings import Settings
from tests.service.conftest import TOY, WAIT, asking
from tests.service.running import running

FAST, SLOW = {"max_iteration_seconds": 2.0}, {"max_iteration_seconds": 1.0}


def case(model: str, name: str | None = None, **expectations: Any) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"request": asking(model), "expectations": expectations, **named}


def ask(service: TestClient, *cases: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"cases": list(cases), **fields}
    answer: dict[str, Any] = service.post("/v1/batches", json=body, headers=WAIT).json()
    return answer


def test_a_batch_is_judged(service: TestClient) -> None:
    batch = ask(service, case("a", **FAST), case("b", **SLOW), case("bug"), name="nightly")
    assert batch["status"] == "finished"
    assert [found["status"] for found in batch["cases"]] == ["passed", "failed", "error"]
    assert batch["passed"] is False
    assert batch["counts"] == {"pending": 0, "passed": 1, "failed": 1, "error": 1}
    assert service.get(f"/v1/batches/{batch['id']}").json() == batch


def test_reports_are_served(service: TestClient) -> None:
    batch = ask(service, case("a", "one"))
    xml = service.get(f"/v1/batches/{batch['id']}/junit")
    assert xml.headers["content-type"].startswith("application/xml")
    assert ElementTree.fromstring(xml.content).find(".//testcase[@name='one']") is not None
    text = service.get(f"/v1/batches/{batch['id']}/summary")
    assert text.headers["content-type"].startswith("text/markdown")
    assert "1 passed of 1." in text.text


def test_equal_requests_of_a_batch_are_solved_once(service: TestClient, solve_log: Path) -> None:
    ask(service, case("a", "one"), case("a", "other", **SLOW))
    assert solve_log.read_text().splitlines() == ["a"]


def test_a_running_batch_says_what_is_pending(service: TestClient) -> None:
    body = {"cases": [case("quick"), case("until-never")]}
    response = service.post("/v1/batches", json=body, headers={"Prefer": "wait=1"})
    assert response.status_code == 202
    batch = service.get(response.headers["location"]).json()
    assert batch["cases"][1]["status"] == "pending"
    assert (batch["status"], batch["passed"]) == ("running", None)


def test_many_small_cases_share_entries_of_the_queue(service: TestClient, solve_log: Path) -> None:
    batch = ask(service, *(case(f"model-{number}") for number in range(40)))
    assert batch["passed"]
    assert sorted(solve_log.read_text().splitlines()) == sorted(f"model-{n}" for n in range(40))


def test_what_changed_since_an_earlier_batch_is_said(service: TestClient) -> None:
    first = ask(service, case("a", "one"), case("b", "two"))
    second = ask(service, case("a", "one", **SLOW), case("c", "three"), against=first["id"])
    assert second["changes"] == [
        "one: was passed, is failed.",
        "three: new.",
        "two: no longer in the batch.",
    ]


def test_a_plan_can_be_held_against_another(service: TestClient) -> None:
    plan = service.post("/v1/plans", json=asking("a"), headers=WAIT).json()
    batch = ask(service, case("b", max_slowdown_against=plan["id"]))
    assert batch["passed"]


@pytest.mark.parametrize(
    ("cases", "field"),
    [
        ([case("a"), case("refused")], "cases[1].request.layout.tensor_parallel"),
        ([case("a", "x"), case("b", "x")], "cases[1].name"),
        (
            [case("a", max_slowdown_against="nothing")],
            "cases[0].expectations.max_slowdown_against",
        ),
        ([case("a", max_iteration_second=1)], "cases[0].expectations.max_iteration_second"),
        ([], "cases"),
    ],
)
def test_a_bad_case_keeps_all_of_them_from_running(
    service: TestClient, cases: list[dict[str, Any]], field: str
) -> None:
    response = service.post("/v1/batches", json={"cases": cases}, headers=WAIT)
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert service.get("/v1/plans").json()["plans"] == []


def test_an_earlier_batch_that_is_not_there_is_refused(service: TestClient) -> None:
    response = service.post("/v1/batches", json={"cases": [case("a")], "against": "nothing"})
    assert (response.status_code, response.json()["field"]) == (422, "against")


def test_an_unknown_batch_is_not_found(service: TestClient) -> None:
    for path in ("", "/junit", "/summary"):
        assert service.get(f"/v1/batches/nothing{path}").status_code == 404


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAGECUT_PLANNER", TOY)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))  # where the toy planner is
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, *lines: Any) -> str:
    file = folder / "batch.jsonl"
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(text))
    return str(file)


def command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["batch", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_writes_reports_and_ends_with_1_when_one_fails(folder: Path) -> None:
    file = write(folder, case("a", "one", **FAST), "", case("b", **SLOW))
    status, shown, _ = command(file, "--junit", "r.xml", "--json", "r.json")
    assert status == 1
    assert "1 passed, 1 failed of 2." in shown
    assert ElementTree.parse(folder / "r.xml").find(".//failure") is not None
    file = write(folder, case("a", "one", **FAST))
    status, shown, _ = command(file, "--against", "r.json", "--summary", "s.md")
    assert (status, shown) == (0, "")
    assert "case 2: no longer in the batch." in (folder / "s.md").read_text()


def test_bad_lines_are_named_and_nothing_is_run(folder: Path, solve_log: Path) -> None:
    bad = case("a") | {"request": asking("a", layout={"tensor_parallel": "x"})}
    file = write(folder, case("a"), "{no json", "", bad, case("refused"))
    status, _, said = command(file)
    assert status == 2
    assert "line 2: " in said
    assert "line 4: request.layout.tensor_parallel: " in said
    file = write(folder, case("a"), "", case("refused"))
    status, _, said = command(file)
    assert status == 2
    assert "line 3: request.layout.tensor_parallel: 5 does not divide 64 heads." in said
    assert solve_log.read_text() == ""


def test_a_store_answers_what_it_has_and_gives_what_to_compare_with(
    folder: Path, solve_log: Path
) -> None:
    file = write(folder, case("a"))
    assert command(file, "--store", f"sqlite:///{folder}/a.db", "--json", "r.json")[0] == 0
    plan_id = json.loads((folder / "r.json").read_text())["cases"][0]["plan_id"]
    file = write(folder, case("a", max_slowdown_against=plan_id))
    assert command(file, "--store", f"sqlite:///{folder}/a.db")[0] == 0
    assert solve_log.read_text().splitlines() == ["a"]
    assert command(file)[0] == 2


def test_a_server_runs_the_batch_and_names_lines_too(
    folder: Path, settings: Settings, solve_log: Path
) -> None:
    assert solve_log.exists()
    with running(settings) as url:
        file = write(folder, case("sleep-0.4", "one"), case("b", "two", **SLOW))
        status, shown, _ = command(file, "--server", url, "--name", "remote")
        assert (status, "## Stagecut: remote" in shown) == (1, True)
        status, _, said = command(write(folder, "", case("refused")), "--server", url)
        assert status == 2
        assert "line 2: request.layout.tensor_parallel" in said
        with Client(url) as client:
            batch = client.submit_batch({"cases": [case("b")]}, wait_seconds=50)
            assert client.read_batch(batch.id) == batch
            assert "<testsuite " in client.batch_junit(batch.id)
            assert "1 passed" in client.batch_summary(batch.id)


def test_a_crash_fails_one_case_and_not_the_command(folder: Path) -> None:
    status, shown, _ = command(write(folder, case("crash"), case("a")))
    assert status == 1
    assert "1 passed, 1 error of 2." in shown
    assert "SIGKILL" in shown


def test_help_does_not_load_the_solver() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from service.cli import app\n"
        "CliRunner().invoke(app, ['batch', '--help'])\n"
        "sys.exit(str({'ortools', 'sqlalchemy'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stderr.strip() in (b"", b"set()")
