"""What schedulers ask over HTTP: curves as jobs, points in no time, placements directly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.problems import ProblemError
from service.routes.capacity import point_at
from service.schema_examples import sample
from solver.capacity.documents import CapacityAnswer
from tests.pace import pace
from tests.service.conftest import WAIT, patient


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service over the solver itself."""
    folder: Path = tmp_path_factory.mktemp("scheduling")
    settings = patient(database_url=f"sqlite:///{folder}/a.db", solver_processes=1)
    with TestClient(create_app(settings)) as client:
        yield client


def read_in_no_time(service: TestClient, where: str) -> dict[str, Any]:
    """What is there, read with little work: some milliseconds, most of which the test client and
    its host take. Processor time, the best of 20, so that what else runs does not count.
    """
    answers, seconds = [service.get(where).json()], []
    for _ in range(20):
        started = time.process_time()
        answers.append(service.get(where).json())
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.025 * pace()
    assert all(answer == answers[0] for answer in answers)
    return dict(answers[0])


@pytest.mark.slow
def test_a_curve_is_worked_out_as_a_job_and_read_by_the_point(real: TestClient) -> None:
    request = {**sample("capacity_request"), "nodes": {"maximum": 2}}
    asked = real.post("/v1/capacity", json=request)
    assert asked.status_code == 202
    where = asked.headers["location"]
    waited = real.post("/v1/capacity", json=request, headers=WAIT)
    assert waited.status_code == 200, waited.text
    assert waited.headers["location"] == where
    point = read_in_no_time(real, f"{where}?nodes=2")
    assert point == waited.json()["curves"][0]["points"][1]
    beyond = real.get(f"{where}?nodes=3")
    assert (beyond.status_code, beyond.json()["field"]) == (404, "nodes")
    whole = real.get(where).json()
    assert real.get(f"{where}?placement=any").json() == whole
    device = whole["curves"][0]["device"]
    for query, field, hint in (
        ("device=none", "device", f"Choose {device}."),
        (f"device={device}&placement=one-leaf&nodes=1", "placement", "Choose any."),
    ):
        refused = real.get(f"{where}?{query}")
        assert refused.status_code == 404
        assert (refused.json()["field"], refused.json()["hint"]) == (field, hint)
    assert real.get(f"/v1/plans/{where.rpartition('/')[2]}").status_code == 404
    assert real.get("/v1/plans").json()["plans"] == []


def test_a_size_below_the_smallest_point_is_told_where_the_curve_begins() -> None:
    (curve,) = CapacityAnswer.model_validate(sample("capacity")).curves
    begins_later = curve.model_copy(update={"points": curve.points[1:]})
    with pytest.raises(ProblemError) as refused:
        point_at(begins_later, 1)
    assert refused.value.problem.hint is not None
    assert refused.value.problem.hint.startswith("Ask for 2 to ")


@pytest.mark.slow
def test_a_placement_is_answered_directly(real: TestClient) -> None:
    answer = real.post("/v1/placements", json=sample("placement_request"))
    assert answer.status_code == 200, answer.text
    stored = sample("placement")
    assert answer.json() | {"seconds": 0.0} == stored | {"seconds": 0.0}


@pytest.mark.slow
def test_what_cannot_be_answered_is_refused_before_it_is_a_job(real: TestClient) -> None:
    request = sample("capacity_request")
    request["job"]["layout"] = {"tensor_parallel": 3}
    refused = real.post("/v1/capacity", json=request)
    assert refused.status_code == 422
    assert refused.json()["field"] == "job.layout.tensor_parallel"
    misspelt = real.post("/v1/capacity", json={**request, "node": 1})
    assert misspelt.json()["field"] == "node"
    assert real.get("/v1/capacity/none").status_code == 404


@pytest.mark.slow
def test_contingencies_are_worked_out_as_a_job_and_read_by_the_failed_node(
    real: TestClient,
) -> None:
    request = sample("contingency_request")
    waited = real.post("/v1/contingencies", json=request, headers=WAIT)
    assert waited.status_code == 200, waited.text
    where = waited.headers["location"]
    titles = [found["title"] for found in waited.json()["classes"]]
    assert titles == [found["title"] for found in sample("contingency")["classes"]]
    covered = read_in_no_time(real, f"{where}?failed=gpu03")
    assert covered["by_itself"]
    several = real.get(f"{where}?failed=gpu03&failed=gpu02").json()
    assert not several["by_itself"]
    unknown = real.get(f"{where}?failed=gpu09")
    assert (unknown.status_code, unknown.json()["field"]) == (422, "failed")
    assert real.get("/v1/contingencies/none").status_code == 404


@pytest.mark.slow
def test_a_running_plan_is_held_against_what_is_expected_and_kept(real: TestClient) -> None:
    job = sample("contingency_request")["job"]
    plan = real.post("/v1/plans", json=job, headers=WAIT).json()
    where = f"/v1/plans/{plan['id']}"
    expected = real.get(f"{where}/expected").json()
    assert expected["iteration_seconds"] == plan["iteration_seconds"]
    measured = {"iteration_seconds": 1.5 * plan["iteration_seconds"]}
    judged = real.post(f"{where}/observations", json=measured)
    assert judged.status_code == 201, judged.text
    assert judged.json()["judged"][0]["outside_band"]
    kept = real.get(f"{where}/observations").json()
    assert kept["observations"][0]["measured"]["iteration_seconds"] == measured["iteration_seconds"]
    fitted = real.post("/v1/calibrations", json={"name": "own", "runs": kept["runs"]})
    assert fitted.status_code == 201, fitted.text
    advice = real.post(f"{where}/checkpoints", json=sample("checkpoint_terms"))
    assert 0.9 < advice.json()["goodput"] < 1
    refused = real.post(f"{where}/observations", json={"stages": []})
    assert refused.status_code == 422
    assert real.get("/v1/plans/none/expected").status_code == 404


@pytest.mark.slow
def test_a_plan_is_placed_on_the_free_nodes_of_a_stored_cluster(real: TestClient) -> None:
    stored = real.post("/v1/clusters", json=sample("cluster_import"))
    assert stored.status_code in (200, 201), stored.text
    cluster = stored.json()
    names = {node["name"] for node in cluster["topology"]["nodes"] if node["available"]}
    each = cluster["devices_per_node"]
    request = {
        "job": {
            "model": {"name": "llama-3.2-1b"},
            "cluster": {"name": cluster["name"], "nodes": 2},
            "training": {"sequence_length": 4096, "global_batch_size": 2 * each},
            "layout": {
                "tensor_parallel": 1, "pipeline_parallel": 2, "data_parallel": each,
                "micro_batch_size": 1,
            },
        }
    }  # fmt: skip
    answer = real.post("/v1/placements", json=request)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "succeeded"
    assert {node["name"] for node in answer.json()["nodes"]} <= names
