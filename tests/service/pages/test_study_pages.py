"""The pages of what schedulers ask say what the answers say."""

from __future__ import annotations

import json
import time

import pytest
from fastapi.testclient import TestClient

from service.jobs.intake import Asked, plan_row
from service.jobs.study import Study
from service.pages.pictures.capacity import capacity
from service.pages.pictures.svg import NARROW
from service.problems import problem
from service.schema_examples import sample
from service.store import Store, plans
from solver.capacity.documents import CapacityAnswer, CapacityRequest, Curve
from solver.contingencies.documents import ContingencyRequest
from solver.request import PlanRequest
from tests.service.conftest import WAIT, asking
from tests.service.pages.test_pages import Addresses


def keep(client: TestClient, asked: Asked, answer: str | None, status: str = "succeeded") -> str:
    """Store an answer to a question; its id."""
    store: Store = client.app.state.store  # type: ignore[attr-defined]
    with store.writing() as session:
        plans.add(session, plan_row(asked, time.time()))
        if answer is not None or status == "failed":
            failure = problem(422, "too-large", "Too large", "Too large.").model_dump_json()
            result = plans.Result(status, answer, None if answer else failure)
            plans.finish(session, asked.plan_id, result, time.time())
    return asked.plan_id


def capacity_study(**change: object) -> Study:
    whole = CapacityRequest.model_validate(sample("capacity_request") | change)
    return Study(request=whole.job, of_kind="capacity", whole=whole)


@pytest.fixture(scope="module")
def curve_id(client: TestClient) -> str:
    return keep(client, capacity_study(), json.dumps(sample("capacity")))


def test_a_capacity_page_marks_the_knee_and_wasteful_sizes(
    client: TestClient, curve_id: str
) -> None:
    text = client.get(f"/capacity/{curve_id}").text
    for said in (
        "Something fits from 1 node on. 4 of 5 sizes are useful",
        "knee: 2 nodes",
        "smallest that fits",
        "wasteful: 4 nodes do as well",
        "40.8",
    ):
        assert said in text, said
    assert Addresses(text).inline == []
    for link in Addresses(text).found:
        assert client.get(link).status_code == 200, link


def test_only_plans_that_there_are_are_led_to(client: TestClient) -> None:
    request = sample("request") | {"cluster": {"memory_bytes": 2.9e10}}
    asked = Asked(PlanRequest.model_validate(request))
    answer = sample("capacity")
    for curve in answer["curves"]:
        curve["points"][0]["plan_id"] = asked.plan_id
    study = capacity_study(relative_gap=0.02)
    curve_id = keep(client, study, json.dumps(answer))
    assert "/plans/" not in client.get(f"/capacity/{curve_id}").text
    keep(client, asked, json.dumps(sample("plan")))
    assert f'href="/plans/{asked.plan_id}"' in client.get(f"/capacity/{curve_id}").text
    assert client.get(f"/plans/{asked.plan_id}").status_code == 200


def test_the_curve_is_a_file_too(client: TestClient, curve_id: str) -> None:
    svg = client.get(f"/capacity/{curve_id}/picture.svg")
    assert svg.headers["content-type"].startswith("image/svg+xml")
    assert "var(" not in svg.text
    assert "Sequences a second" in svg.text
    assert client.get(f"/capacity/{curve_id}/picture.png").content.startswith(b"\x89PNG")


def test_every_curve_has_a_line_of_its_own_and_a_word_in_the_legend() -> None:
    one = CapacityAnswer.model_validate(sample("capacity")).curves[0]
    several = [
        one.model_copy(update={"device": f"device-{i}", "placement": "one-leaf"}) for i in range(9)
    ]
    for width in (NARROW, 1120.0):
        drawing = capacity(several, width)
        lines = {style for style, _ in drawing.legend if style.startswith("curve")}
        assert len(lines) == 9
        assert "device-8, one leaf" in [words for _, words in drawing.legend]


def test_a_curve_on_which_nothing_fits_is_drawn_as_such() -> None:
    answer = sample("capacity")["curves"][0]
    points = [
        {"nodes": 1, "devices": 8, "feasible": False, "useful": False},
        {"nodes": 2, "devices": 16, "feasible": False, "useful": False},
    ]
    drawing = capacity(
        [Curve(device=answer["device"], placement="any", points=points)]  # type: ignore[arg-type]
    )
    assert ("nothing-fits", "Nothing fits") in drawing.legend
    assert "nothing fits" in drawing.description


def test_contingencies_say_what_to_do_best_first(client: TestClient) -> None:
    whole = ContingencyRequest.model_validate(sample("contingency_request"))
    study = Study(request=whole.job, of_kind="contingency", whole=whole)
    kept = keep(client, study, json.dumps(sample("contingency")))
    text = client.get(f"/contingencies/{kept}").text
    for said in (
        "A node of stage 0",
        "put a spare in its place",
        "72% <small>on 3 nodes",
        "at once",
    ):
        assert said in text, said
    assert text.index("put a spare in its place") < text.index("plan again on what is left")
    for link in Addresses(text).found:
        assert client.get(link).status_code == 200, link
    assert client.get(f"/capacity/{kept}").status_code == 404


def test_what_is_under_way_or_failed_says_so(client: TestClient) -> None:
    waiting = keep(client, capacity_study(seconds_per_size=3), None)
    text = client.get(f"/capacity/{waiting}").text
    assert 'data-pending="yes"' in text
    assert client.get(f"/capacity/{waiting}/picture.svg").status_code == 404
    failed = keep(client, capacity_study(seconds_per_size=4), None, "failed")
    text = client.get(f"/capacity/{failed}").text
    assert "Too large." in text
    assert 'data-pending="no"' in text


def test_lists_lead_to_what_was_asked(client: TestClient, curve_id: str) -> None:
    assert f'href="/capacity/{curve_id}"' in client.get("/capacity").text
    cases = {"name": "nightly <1>", "cases": [{"request": asking("sleep-0")}]}
    asked = client.post("/v1/batches", json=cases, headers=WAIT).json()
    text = client.get("/batches").text
    assert f'href="/batches/{asked["id"]}"' in text
    assert "nightly &lt;1&gt;" in text
    for address in ("/capacity", "/contingencies", "/batches"):
        page = client.get(address)
        assert 'aria-current="page"' in page.text
        for link in Addresses(page.text).found:
            assert client.get(link).status_code == 200, link
