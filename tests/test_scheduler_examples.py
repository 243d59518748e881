"""The schedulers' examples: each runs, and does what the guide says of it."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import lupa
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "schedulers"
POINT = {"feasible": True, "uses_nodes": 6, "plan_id": "abc"}
CURVE = {"curves": [{"smallest_feasible": 3}]}


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    specification = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    made = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(made)
    return made


# -- the elastic simulation -------------------------------------------------------------------


def test_the_elastic_scheduler_is_short() -> None:
    assert len((FOLDER / "elastic.py").read_text().splitlines()) <= 60


def test_curves_never_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    for curve in module("workload", monkeypatch).CURVES.values():
        assert len(curve) == 16
        assert curve == sorted(curve)


def test_knowing_the_curves_beats_not_knowing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    elastic = module("elastic", monkeypatch)
    for seed in (1, 2, 3):
        blind, _ = elastic.simulate(elastic.blind, seed)
        aware, _ = elastic.simulate(elastic.aware, seed)
        assert aware < blind


def test_the_guide_tells_the_figures_of_the_simulation() -> None:
    ran = subprocess.run(
        [sys.executable, FOLDER / "elastic.py", "1"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() in (ROOT / "docs" / "guides" / "scheduler.md").read_text()


# -- the admission webhook --------------------------------------------------------------------


def job(api: str, spec: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    return {
        "request": {
            "uid": "u",
            "object": {"apiVersion": api, "metadata": {"annotations": annotations}, "spec": spec},
        }
    }


def patches(review: dict[str, Any]) -> dict[str, Any]:
    found = json.loads(base64.b64decode(review["response"]["patch"]))
    return {patch["path"]: patch["value"] for patch in found}


@pytest.mark.parametrize(
    ("api", "spec", "paths"),
    [
        ("batch/v1", {"parallelism": 7, "completions": 7},
         ["/spec/parallelism", "/spec/completions"]),
        ("batch.volcano.sh/v1alpha1", {"minAvailable": 7, "tasks": [{"replicas": 7}]},
         ["/spec/tasks/0/replicas", "/spec/minAvailable"]),
    ],
)  # fmt: skip
def test_a_job_is_given_the_nodes_that_its_plan_uses(
    api: str, spec: dict[str, Any], paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = module("admission_webhook", monkeypatch)
    asked = []

    def ask(path: str) -> Any:
        asked.append(path)
        return POINT

    review = webhook.reviewed(job(api, spec, {"stagecut/capacity": "xyz"}), ask)
    assert review["response"]["allowed"]
    assert asked == ["/v1/capacity/xyz?nodes=7"]
    assert patches(review) == dict.fromkeys(paths, 6) | {
        "/metadata/annotations/stagecut~1plan": "abc"
    }


def test_a_size_on_which_nothing_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    webhook = module("admission_webhook", monkeypatch)
    answers = {"/v1/capacity/xyz?nodes=2": {"feasible": False}, "/v1/capacity/xyz": CURVE}
    body = job("batch/v1", {"parallelism": 2, "completions": 2}, {"stagecut/capacity": "xyz"})
    review = webhook.reviewed(body, answers.__getitem__)
    assert not review["response"]["allowed"]
    assert review["response"]["status"]["message"].endswith("the smallest size is 3.")


def test_it_answers_over_http_and_lets_jobs_pass_when_the_service_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(POINT).encode())

        def log_message(self, *_: object) -> None:
            pass

    service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    webhook = module("admission_webhook", monkeypatch)
    server = webhook.serve(f"http://127.0.0.1:{service.server_port}", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    body = job("batch/v1", {"parallelism": 7, "completions": 7}, {"stagecut/capacity": "xyz"})

    def post() -> Any:
        url = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(url, data=json.dumps(body).encode(), timeout=60) as response:
            return json.load(response)

    assert patches(post())["/spec/parallelism"] == 6
    service.shutdown()
    service.server_close()
    assert post()["response"] == {"uid": "u", "allowed": True}
    server.shutdown()
    server.server_close()


# -- the job_submit plugin --------------------------------------------------------------------


def submitted(answer: str, **job: Any) -> tuple[int, dict[str, Any], list[str]]:
    """What the plugin says, the job as it left it, and the paths that it asked."""
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    commands: list[str] = []

    def popen(command: str) -> Any:
        commands.append(command)
        return lua.table_from({"read": lambda *_: answer, "close": lambda *_: True})

    lua.globals().io.popen = popen
    lua.globals().slurm = lua.table_from(
        {"SUCCESS": 0, "ERROR": -1, "NO_VAL": 4294967294, "log_user": lambda *_: None}
    )
    lua.execute((FOLDER / "job_submit.lua").read_text())
    description = lua.table_from(job)
    status = lua.globals().slurm_job_submit(description, lua.table(), 1000)
    paths = [re.search(r"8000(\S+)'", command).group(1) for command in commands]  # type: ignore[union-attr]
    return status, dict(description.items()), paths


def test_slurm_jobs_are_given_the_nodes_that_their_plan_uses() -> None:
    status, job, paths = submitted(
        '{"nodes":7,"feasible":true,"uses_nodes":6}', comment="stagecut:xyz", min_nodes=7
    )
    assert (status, job["min_nodes"], job["max_nodes"]) == (0, 6, 6)
    assert paths == ["/v1/capacity/xyz?nodes=7"]


def test_slurm_jobs_on_which_nothing_fits_are_refused() -> None:
    status, _, _ = submitted(
        '{"nodes":1,"feasible":false,"uses_nodes":null}', comment="stagecut:xyz", min_nodes=1
    )
    assert status == -1


def test_other_slurm_jobs_and_those_without_a_service_pass_as_they_are() -> None:
    assert submitted("", min_nodes=7)[::2] == (0, [])
    status, job, _ = submitted("", comment="stagecut:xyz", min_nodes=7)
    assert (status, job["min_nodes"]) == (0, 7)
