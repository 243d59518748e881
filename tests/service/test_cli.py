"""The command line: answers, exit statuses, and errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.schema_examples import sample
from service.settings import Settings
from service.store import Store, plans
from solver.plan import Evaluation, Plan

REQUEST = sample("request")


def run(*arguments: str, request: Any = None) -> tuple[int, str, str]:
    """Exit status, standard output and standard error; ``request`` goes to standard input."""
    text = None if request is None else json.dumps(request)
    result = CliRunner().invoke(app, list(arguments), input=text)
    return result.exit_code, result.stdout, result.stderr


def changed(**fields: Any) -> dict[str, Any]:
    return {**REQUEST, **fields}


def test_a_plan_is_printed_as_a_page() -> None:
    status, out, _ = run("plan", "-", request=REQUEST)
    assert status == 0
    assert "One iteration takes" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_a_plan_is_printed_as_json() -> None:
    status, out, _ = run("plan", "-", "--json", request=REQUEST)
    assert status == 0
    assert Plan.model_validate_json(out).status == "succeeded"


def test_the_sample_answers_are_what_the_solver_says_today() -> None:
    _, out, _ = run("plan", "-", "--json", request=REQUEST)
    found, kept = Plan.model_validate_json(out), Plan.model_validate(sample("plan"))
    assert found.iteration_seconds == pytest.approx(kept.iteration_seconds)
    _, out, _ = run("evaluate", "-", "--json", request=REQUEST)
    kept_evaluation = Evaluation.model_validate(sample("evaluation"))
    assert Evaluation.model_validate_json(out).iteration_seconds == pytest.approx(
        kept_evaluation.iteration_seconds
    )


def test_an_infeasible_request_ends_with_one() -> None:
    status, out, _ = run("plan", "-", request=changed(cluster={"memory_bytes": 1e9}))
    assert status == 1
    assert "No plan fits." in out
    assert "missing" in out


def test_a_bad_request_ends_with_two_and_names_the_field() -> None:
    status, out, err = run("plan", "-", request=changed(layout={"pipeline_paralel": 2}))
    assert status == 2
    assert out == ""
    assert "layout.pipeline_paralel: There is no such field." in err
    assert "Did you mean pipeline_parallel?" in err


def test_a_request_that_breaks_a_rule_ends_with_two() -> None:
    status, _, err = run("plan", "-", request=changed(layout={"pipeline_parallel": 9}))
    assert status == 2
    assert "layout.pipeline_parallel" in err


def test_with_json_a_problem_is_json_too() -> None:
    for text in ("{", json.dumps(changed(layout={"pipeline_parallel": 9}))):
        result = CliRunner().invoke(app, ["plan", "-", "--json"], input=text)
        assert result.exit_code == 2
        assert json.loads(result.stdout)["detail"]


def test_a_missing_file_is_said_plainly() -> None:
    status, _, err = run("evaluate", "no-such-file.json")
    assert status == 2
    assert "no-such-file.json: No such file or directory." in err


def test_an_evaluation_is_printed_as_a_page_and_as_json() -> None:
    status, out, _ = run("evaluate", "-", request=REQUEST)
    assert status == 0
    assert "One iteration takes" in out
    status, out, _ = run("evaluate", "-", "--json", request=REQUEST)
    assert status == 0
    assert Evaluation.model_validate_json(out).iteration_seconds > 0


def test_a_store_answers_what_it_has(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/plans.db"
    _, first, _ = run("plan", "-", "--json", "--store", url, request=REQUEST)
    store = Store(Settings(database_url=url).database_url)
    plan_id = json.loads(first)["id"]
    with store.reading() as session:
        stored = plans.find(session, plan_id)
    assert stored is not None
    _, again, _ = run("plan", "-", "--json", "--store", url, request=REQUEST)
    assert again == first  # the seconds that the solver took included


def test_a_server_that_is_not_there_ends_with_three() -> None:
    status, _, err = run("plan", "-", "--server", "http://127.0.0.1:9", request=REQUEST)
    assert status == 3
    assert "stagecut:" in err


@pytest.mark.parametrize("catalogue", ["models", "devices"])
def test_a_catalogue_is_listed(catalogue: str) -> None:
    status, out, _ = run(catalogue)
    assert status == 0
    assert len(out.splitlines()) > 10
    status, out, _ = run(catalogue, "--json")
    assert status == 0
    assert len(json.loads(out)[catalogue]) > 10


def test_the_database_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGECUT_DATABASE_URL", f"sqlite:///{tmp_path}/a.db")
    assert run("migrate")[0] == 0
    assert (tmp_path / "a.db").exists()


@pytest.mark.parametrize("command", [[], ["cluster"], ["keys"], ["store"]])
def test_no_summary_of_a_command_is_cut(command: list[str]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).stdout
    summaries = shown.partition("Commands:")[2]
    assert summaries
    assert "..." not in summaries


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from service.cli import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'ortools', 'sqlalchemy', 'fastapi', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "plan" in done.stdout
