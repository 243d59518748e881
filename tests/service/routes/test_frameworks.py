"""What frameworks can run, over HTTP and on the command line: projections and imports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from service.cli import app
from service.client import Client
from solver.planner import plan
from tests.service.conftest import WAIT, patient
from tests.service.running import running
from tests.service.test_importing import CLUSTER, FLAGS
from tests.solver.requests import HAND, hand

RUN = CliRunner()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A service with the real solver."""
    with running(patient(database_url=f"sqlite:///{tmp_path}/plans.db", solver_processes=1)) as at:
        yield at


def test_a_plan_is_projected_and_a_run_of_today_is_compared(url: str) -> None:
    solving = httpx2.Client(base_url=url, timeout=400.0)
    request: dict[str, Any] = HAND
    made = solving.post("/v1/plans", json=request, headers=WAIT).json()
    base = f"/v1/plans/{made['id']}/projections"
    found = solving.get(f"{base}/torchtitan").json()
    assert found["plan"]["iteration_seconds"] == made["iteration_seconds"]
    assert found["projected"]["fits"]
    assert found["slower"] >= 0
    assert solving.get(f"{base}/torch").status_code == 404
    assert solving.get("/v1/plans/nowhere/projections/torchtitan").status_code == 404

    asked = {"configuration": FLAGS, **CLUSTER}
    answer = solving.post("/v1/imports", json=asked, headers=WAIT)
    assert answer.status_code == 200, answer.text
    there = answer.json()
    assert there["framework"] == "megatron-lm"
    assert there["words"][0].startswith("Yours: ")
    assert there["words"][1].startswith("Best for Megatron-LM")
    assert any(line.startswith("--recompute-granularity full") for line in there["given_up"])
    assert there["best"]["iteration_seconds"] <= there["yours"]["iteration_seconds"]
    where = answer.headers["location"]
    assert solving.get(where).json() == there
    assert solving.post("/v1/imports", json=asked).json() == there
    assert solving.get("/v1/imports/nowhere").status_code == 404

    with Client(url) as client:
        assert client.import_configuration(asked).words == there["words"]
        projection = client.projection(made["id"], "torchtitan")
        assert projection.slower == found["slower"]
        assert "--pipeline-model-parallel-size 2" in client.export(made["id"], "megatron-lm")
        assert "#SBATCH" in client.export(made["id"], "megatron-lm", launch="slurm")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"configuration": "nothing to see", **CLUSTER}, 422, "configuration"),
        ({"configuration": '{"train_batch_size": 8, "zero_optimization": {}}'}, 422, "cluster"),
        (
            {"configuration": '{"train_batch_size": 8, "zero_optimization": {}}', **CLUSTER},
            422,
            "model",
        ),
        ({"configuration": FLAGS, **CLUSTER, "flags": ""}, 422, "flags"),
        ({"configuration": FLAGS.replace("layers 16", "layers 18"), **CLUSTER}, 422, None),
    ],
)
def test_what_cannot_be_imported_is_refused(
    service: TestClient, body: dict[str, Any], status: int, field: str | None
) -> None:
    answer = service.post("/v1/imports", json=body)
    if field is None:  # the planner of these tests checks no layouts
        assert answer.status_code in (200, 202, status)
        return
    assert answer.status_code == status, answer.text
    assert answer.json()["field"] == field


def test_the_command_line_projects(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan(hand()).model_dump_json())
    done = RUN.invoke(app, ["project", str(file), "--onto", "megatron-lm"])
    assert done.exit_code == 0, done.output
    assert "megatron-lm runs this plan" in done.output
    assert "--pipeline-model-parallel-size 2" in done.output
    shown = RUN.invoke(app, ["project", str(file), "--onto", "deepspeed", "--json"])
    assert json.loads(shown.stdout)["framework"] == "deepspeed"
    assert RUN.invoke(app, ["project", str(file), "--onto", "nothing"]).exit_code == 2


def test_what_a_framework_costs_is_said_in_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(hand(200.0, target={"framework": "torchtitan"}).model_dump_json())
    done = RUN.invoke(app, ["plan", str(file)])
    assert "torchtitan" in done.output
    assert "best plan of all" in done.output or "No plan is faster" in done.output
