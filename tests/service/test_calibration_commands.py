"""Calibrations at the command line: fitted, kept, and used by name or from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from tests.solver.calibrate.samples import request, runs


def run(*words: str) -> tuple[int, Any, str]:
    """Exit status, the JSON of standard output, and standard error."""
    done = CliRunner().invoke(app, [*words, "--json"])
    return done.exit_code, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, a request, and a calibration in a file and, by the name ours, in a store."""
    found = tmp_path_factory.mktemp("calibrations")
    lines = [run.model_dump_json(exclude_unset=True) for run in runs()[:3]]
    (found / "runs.jsonl").write_text("\n".join(lines) + "\n")
    (found / "request.json").write_text(json.dumps(request(2, 4096, 1)))
    fit = ["calibrate", str(found / "runs.jsonl"), "--name", "ours"]
    done = run(*fit, "--store", store(found), "--output", str(found / "ours.json"))
    assert done[0] == 0
    return found


def store(folder: Path) -> str:
    return f"sqlite:///{folder}/plans.db"


@pytest.mark.parametrize("command", ["plan", "evaluate"])
def test_a_kept_calibration_is_used_by_its_name(folder: Path, command: str) -> None:
    asked = [command, str(folder / "request.json")]
    version = json.loads((folder / "ours.json").read_text())["version"]
    plain = run(*asked)[1]
    for name, where in (
        ("ours", ["--store", store(folder)]),
        (f"ours@{version}", ["--store", store(folder)]),
        (str(folder / "ours.json"), []),
    ):
        status, answer, _ = run(*asked, "--calibration", name, *where)
        assert status == 0
        assert answer["calibration"]["version"] == version
        assert answer["iteration_seconds"] != plain["iteration_seconds"]


@pytest.mark.parametrize(
    ("name", "field"), [("nobody", "calibration.name"), ("ours@1", "calibration.version")]
)
def test_one_that_the_store_does_not_have_is_refused(folder: Path, name: str, field: str) -> None:
    asked = ["evaluate", str(folder / "request.json"), "--store", store(folder)]
    status, problem, said = run(*asked, "--calibration", name)
    assert status == 2
    assert problem["field"] == field
    assert field in said


def test_without_a_store_a_name_says_nothing(folder: Path) -> None:
    status, problem, _ = run("plan", str(folder / "request.json"), "--calibration", "ours")
    assert status == 2
    assert problem["field"] == "calibration.name"


def test_a_store_and_a_server_are_not_asked_both(folder: Path) -> None:
    words = [
        "calibrate",
        str(folder / "runs.jsonl"),
        "--store",
        store(folder),
        "--server",
        "http://x",
    ]
    assert CliRunner().invoke(app, words).exit_code == 2
