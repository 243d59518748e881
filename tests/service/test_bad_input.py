"""Bad input of any kind gets a clear error, stores nothing, and leaves the service up."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient

from service.settings import Settings
from tests.service.conftest import asking
from tests.service.running import running

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"not json", 400),
        (b'{"model": {"name": "m"}', 400),
        (b"\xff\xfe\x00", 400),
        (b'{"model": NaN}', 400),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 400),
        (b'{"model": {"huggingface": {"hidden_size": 1e999}}}', 400),
        (b'{"model": ' + b"7" * 10_000 + b"}", 400),
        (b'{"model": {"name": "a", "name": "b"}, "cluster": {}}', 400),
        (
            b'{"solver": {"relative_gap": 1, "\\u0072elative_gap": 2}}',
            400,
        ),
        ('{"model": "é"}'.encode("latin-1"), 400),
        ('{"model": 1}'.encode("utf-16"), 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"-" + b"9" * 400, 422),
        (b"null", 422),
        (b"[1, 2]", 422),
        (b'"text"', 422),
        (b'{"model": {"name": "m"}}', 422),
        (b'{"model": {"name": ""}, "cluster": {}}', 422),
        (b"x" * 10_000_000, 413),
    ],
)
def test_a_bad_body_is_refused(service: TestClient, body: bytes, status: int) -> None:
    response = service.post("/v1/plans", content=body, headers=JSON)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert service.get("/v1/plans").json()["plans"] == []
    assert service.get("/healthz").status_code == 200


def test_a_body_that_is_no_json_by_its_own_words_is_refused(service: TestClient) -> None:
    response = service.post("/v1/plans", content=b"{}", headers={"Content-Type": "text/xml"})
    assert response.status_code == 415
    assert "application/json" in response.json()["hint"]


def test_evaluations_are_refused_in_the_same_way(service: TestClient) -> None:
    response = service.post("/v1/evaluations", json=asking("m", layout={"zero_stage": 9}))
    assert response.status_code == 422
    assert response.json()["field"] == "layout.zero_stage"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("PUT", "/v1/plans", 405), ("PATCH", "/v1/models", 405)],
)
def test_what_is_not_offered_is_a_problem_too(
    service: TestClient, method: str, path: str, status: int
) -> None:
    response = service.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


def test_what_is_allowed_instead_is_said_whatever_the_route(service: TestClient) -> None:
    response = service.put("/v1/plans/some")
    assert response.headers["allow"] == "DELETE, GET"
    assert response.json()["hint"] == "Allowed here: DELETE, GET."


def test_a_parameter_out_of_range_is_named(service: TestClient) -> None:
    response = service.get("/v1/plans", params={"limit": 0})
    assert response.status_code == 422
    assert response.json()["field"] == "limit"


def test_names_that_no_list_can_hold_are_refused_with_the_way_out(service: TestClient) -> None:
    body = {"job": asking("m"), "nodes": [{"name": "gpu 1"}], "leaf_label": "a leaf"}
    refused = service.post("/v1/placements", json=body).json()
    assert {each["field"]: each["hint"] for each in refused["errors"]} == {
        "nodes[0].name": "Write it without spaces and commas.",
        "leaf_label": "Write it as a Kubernetes label's key, such as `example.com/leaf`.",
    }


@pytest.mark.parametrize(
    ("where", "field", "hint"),
    [
        ("/v1/plans?limt=3", "limt", "Did you mean limit?"),
        ("/v1/capacity/x?node=37", "node", "Did you mean nodes?"),
        ("/v1/contingencies/x?broken=a", "broken", "the parameters here are failed"),
        ("/v1/models?q=llama", "q", "Remove it."),
    ],
)
def test_a_misspelt_parameter_is_refused(
    service: TestClient, where: str, field: str, hint: str
) -> None:
    answer = service.get(where)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert hint in answer.json()["hint"]


def test_the_terms_of_a_plan_are_parameters_that_are_known(service: TestClient) -> None:
    answer = service.post("/v1/plans?priorty=batch", json=asking("quick"))
    assert answer.json()["hint"] == "Did you mean priority?"
    assert service.get("/v1/plans").json()["plans"] == []


@pytest.mark.parametrize(
    "where", ["/v1/clusters/%00", "/v1/plans?cursor=%00", "/compare?ids=%00", "/plans/a%00"]
)
def test_a_null_character_in_an_address_is_refused(service: TestClient, where: str) -> None:
    assert service.get(where).status_code == 400


def test_a_name_holds_no_control_characters(service: TestClient) -> None:
    batch = {"name": "night\x00ly", "cases": [{"request": asking("quick")}]}
    answer = service.post("/v1/batches", json=batch)
    assert answer.status_code == 422
    assert answer.json()["field"] == "name"
    assert "control characters" in answer.json()["hint"]


@contextmanager
def connected(settings: Settings, **changes: float) -> Iterator[socket.socket]:
    """A connection to a real server, for what only shows on a socket."""
    with running(settings.model_copy(update=changes)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            yield connection


def test_a_body_that_dribbles_in_is_given_up(settings: Settings) -> None:
    with connected(settings, body_seconds=0.3) as connection:
        head = "POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b"408" in connection.recv(1000).splitlines()[0]


def test_a_body_of_unknown_length_is_counted_as_it_comes(settings: Settings) -> None:
    with connected(settings, body_seconds=300.0) as connection:
        head = "POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        try:
            for _ in range(5):
                connection.sendall(chunk)
        except OSError:
            pass  # refused before all of it was sent
        assert b"413" in connection.recv(1000).splitlines()[0]
