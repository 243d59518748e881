"""Plans in the words of frameworks, over HTTP and on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from service.app import create_app
from service.cli import app
from solver.planner import plan
from tests.service.conftest import WAIT, asking, patient
from tests.solver.requests import HAND, hand

RUN = CliRunner()


@pytest.fixture
def solving(tmp_path: Path) -> Iterator[TestClient]:
    """A service with the real solver."""
    settings = patient(database_url=f"sqlite:///{tmp_path}/plans.db", solver_processes=1)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def test_a_finished_plan_is_written_for_every_framework(solving: TestClient) -> None:
    request: dict[str, Any] = HAND | {"target": {"framework": "megatron-lm"}}
    made = solving.post("/v1/plans", json=request, headers=WAIT).json()
    assert made["restriction"]["framework"] == "megatron-lm"
    base = f"/v1/plans/{made['id']}/exports"
    listed = {export["framework"]: export for export in solving.get(base).json()["exports"]}
    flags = solving.get(f"{base}/megatron-lm")
    assert flags.headers["stagecut-exact"] == "true"
    assert flags.headers["content-type"].startswith("text/plain")
    assert flags.text == listed["megatron-lm"]["text"]
    bridge = solving.get(f"{base}/megatron-bridge")
    assert bridge.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(bridge.text)["model"]["pipeline_model_parallel_size"] == 2
    job = solving.get(f"{base}/megatron-lm", params={"launch": "slurm"})
    assert "#SBATCH" in job.text
    unknown = solving.get(f"{base}/megatron")
    assert (unknown.status_code, unknown.json()["status"]) == (404, 404)
    assert "megatron-lm" in unknown.json()["hint"]
    assert solving.get(f"{base}/megatron-lm", params={"launch": "cron"}).status_code == 422


def test_what_is_not_there_or_not_finished_cannot_be_written(service: TestClient) -> None:
    assert service.get("/v1/plans/nowhere/exports/megatron-lm").status_code == 404
    waiting = service.post("/v1/plans", json=asking("sleep-600")).json()["id"]
    response = service.get(f"/v1/plans/{waiting}/exports/megatron-lm")
    assert (response.status_code, response.json()["type"][-9:]) == (409, "no-stages")


def test_the_command_line_writes_files_with_their_launcher(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan(hand(target={"framework": "mindformers"})).model_dump_json())
    into = ["--launch", "torchrun", "--into", str(tmp_path / "job")]
    done = RUN.invoke(app, ["export", str(file), "--as", "mindformers", *into])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "job").iterdir()} == {
        "mindformers.yaml",
        "launch.sh",
    }
    shown = RUN.invoke(app, ["export", str(file), "--as", "mindformers", "--json"])
    assert json.loads(shown.stdout)["framework"] == "mindformers"
    assert RUN.invoke(app, ["export", str(file), "--as", "nothing"]).exit_code == 2
    assert RUN.invoke(app, ["export", "absent.json", "--as", "mindformers"]).exit_code == 2
