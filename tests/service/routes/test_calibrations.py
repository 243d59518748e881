"""Calibrations over HTTP, fitted by the solver itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.client import Client
from service.problems import ProblemError
from solver.calibrate.measured import RunsToFit
from tests.service.conftest import WAIT, patient
from tests.solver.calibrate.samples import request, runs


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/plans.db"
    with TestClient(create_app(patient(database_url=url, solver_processes=1))) as client:
        yield client


@pytest.fixture(scope="module")
def kept(service: TestClient) -> dict[str, Any]:
    answer = service.post("/v1/calibrations", json=body())
    assert answer.status_code == 201
    found: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/calibrations/ours/{found['version']}"
    return found


def body() -> dict[str, Any]:
    return {
        "name": "ours",
        "runs": [run.model_dump(mode="json", exclude_none=True) for run in runs()[:3]],
    }


def test_it_is_found_by_name_and_by_version(service: TestClient, kept: dict[str, Any]) -> None:
    assert service.get("/v1/calibrations/ours").json() == kept
    assert service.get(f"/v1/calibrations/ours/{kept['version']}").json() == kept
    assert service.get("/v1/calibrations").json() == {"calibrations": [kept]}


def test_the_same_runs_again_change_nothing(service: TestClient, kept: dict[str, Any]) -> None:
    again = service.post("/v1/calibrations", json=body())
    assert again.status_code == 200
    assert again.json() == kept


def test_a_request_names_it(service: TestClient, kept: dict[str, Any]) -> None:
    asked = request(2, 4096, 1)
    own = service.post("/v1/evaluations", json={**asked, "calibration": {"name": "ours"}}).json()
    assert own["calibration"]["version"] == kept["version"]
    low, high = own["iteration_seconds_band"]
    assert low == pytest.approx(own["iteration_seconds"] * kept["band"]["low"])
    assert high == pytest.approx(own["iteration_seconds"] * kept["band"]["high"])


def test_a_plan_by_name_is_the_plan_by_content(service: TestClient, kept: dict[str, Any]) -> None:
    asked = request(2, 4096, 1)
    named = service.post(
        "/v1/plans", json={**asked, "calibration": {"name": "ours"}}, headers=WAIT
    ).json()
    inline = service.post(
        "/v1/plans",
        json={
            **asked,
            "calibration": {
                name: kept[name]
                for name in ("name", "version", "device", "values", "software", "band")
            },
        },
        headers=WAIT,
    ).json()
    plain = service.post("/v1/plans", json=asked, headers=WAIT).json()
    assert named["id"] == inline["id"] != plain["id"]
    assert named["calibration"]["name"] == "ours"


@pytest.mark.parametrize(
    ("calibration", "field"),
    [
        ({"name": "nobody"}, "calibration.name"),
        ({"name": "ours", "version": "1"}, "calibration.version"),
    ],
)
def test_one_that_is_not_there_is_refused(
    service: TestClient, kept: dict[str, Any], calibration: dict[str, str], field: str
) -> None:
    assert kept["name"] == "ours"
    answer = service.post(
        "/v1/evaluations", json={**request(2, 4096, 1), "calibration": calibration}
    )
    assert answer.status_code == 422
    assert answer.json()["field"] == field


@pytest.mark.parametrize("path", ["/v1/calibrations/nobody", "/v1/calibrations/nobody/1"])
def test_reading_one_that_is_not_there_is_answered_with_404(service: TestClient, path: str) -> None:
    assert service.get(path).status_code == 404


def test_a_run_at_fault_is_named(service: TestClient) -> None:
    asked = body()
    asked["runs"][1]["measured"]["iteration_seconds"] = -1
    answer = service.post("/v1/calibrations", json=asked)
    assert answer.status_code == 422
    assert answer.json()["field"] == "runs[1].measured.iteration_seconds"
    asked = body()
    asked["runs"][2]["request"]["layout"]["tensor_parallel"] = 7
    answer = service.post("/v1/calibrations", json=asked)
    assert answer.status_code == 422
    assert answer.json()["field"] == "runs[2].request.layout.tensor_parallel"


def job(calibration: dict[str, Any] | None) -> dict[str, Any]:
    asked = {**request(2, 4096, 1), "recompute": {"policy": "none"}}
    named = {} if calibration is None else {"calibration": calibration}
    return {"job": {**asked, **named}, "nodes": {"minimum": 1, "maximum": 1}}


def test_what_schedulers_ask_names_it_too(service: TestClient, kept: dict[str, Any]) -> None:
    content = {name: kept[name] for name in ("name", "version", "device", "values", "software")}
    named, inline, plain = (
        service.post("/v1/capacity", json=job(calibration), headers=WAIT).json()
        for calibration in ({"name": "ours"}, content | {"band": kept["band"]}, None)
    )
    seconds = [
        answer["curves"][0]["points"][0]["iteration_seconds"] for answer in (named, inline, plain)
    ]
    assert named["id"] == inline["id"] != plain["id"]
    assert seconds[0] == seconds[1] != seconds[2]


def test_what_schedulers_ask_cannot_name_one_that_is_not_there(service: TestClient) -> None:
    answer = service.post("/v1/capacity", json=job({"name": "nobody"}))
    assert answer.status_code == 422
    assert answer.json()["field"] == "calibration.name"


def test_the_client_fits_lists_and_reads_them(service: TestClient, kept: dict[str, Any]) -> None:
    with Client("http://testserver", transport=service._transport) as client:
        again = client.calibrate(RunsToFit(name="ours", runs=runs()[:3]))
        assert again.version == kept["version"]
        assert [one.name for one in client.calibrations().calibrations] == ["ours"]
        assert client.calibration("ours") == client.calibration("ours", again.version) == again
        with pytest.raises(ProblemError, match="nobody"):
            client.calibration("nobody")
