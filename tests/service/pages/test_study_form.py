"""The forms of capacity curves and contingencies make the question that they show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.pages import study_page, study_start
from service.pages.form import JSON_FIELD, as_text
from service.pages.study_form import fields_of, request_of
from service.pages.study_page import CAPACITY, CONTINGENCY, StudyKind
from service.schema_examples import example_requests, sample
from solver.plan import LayoutAnswer, Plan
from solver.request import PlanRequest
from tests.service.conftest import WAIT, asking
from tests.service.pages.plans import sample_plan

KINDS = [CAPACITY, CONTINGENCY]
CURVE: dict[str, Any] = sample("capacity_request")
FAILING: dict[str, Any] = sample("contingency_request")
WHOLE_CURVE = CURVE | {
    "nodes": {"minimum": 2, "maximum": 12, "step": 2},
    "devices": [{"device": "H100-SXM5-80GB", "devices_per_node": 4}, {"device": "A100-SXM4-80GB"}],
    "spread": {"nodes_per_leaf": 4, "oversubscription": 2.5},
    "relative_gap": 0.02,
    "seconds_per_size": 3,
}
WHOLE_FAILING = FAILING | {
    "stages": [18, 16],
    "most_failed": 2,
    "horizon_seconds": 600,
    "restart_seconds": 40.5,
    "local_checkpoints": True,
    "relative_gap": 0.01,
}


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (CAPACITY, CURVE),
        (CAPACITY, WHOLE_CURVE),
        (CONTINGENCY, FAILING),
        (CONTINGENCY, WHOLE_FAILING),
    ],
)
def test_the_form_of_a_question_makes_that_question(kind: StudyKind, asked: dict[str, Any]) -> None:
    assert request_of(kind.kind, study_page.filled(kind, asked)) == asked
    alone = request_of(kind.kind, fields_of(kind.kind, asked))  # without the JSON beside it
    kept = {"relative_gap", "seconds_per_size", "devices"}
    assert {k: v for k, v in alone.items() if k not in kept} == {
        k: v for k, v in asked.items() if k not in kept
    }


def test_what_is_changed_in_the_form_changes_in_the_question_and_nothing_else() -> None:
    fields = study_page.filled(CAPACITY, WHOLE_CURVE)
    changed = fields | {"devices": "A100-SXM4-80GB, H200-SXM-141GB", "nodes.maximum": "24"}
    made = request_of("capacity", changed)
    assert made["devices"] == [{"device": "A100-SXM4-80GB"}, {"device": "H200-SXM-141GB"}]
    assert made["nodes"] == {"minimum": 2, "maximum": 24, "step": 2}
    assert made["spread"] == WHOLE_CURVE["spread"]
    emptied = request_of("capacity", fields | dict.fromkeys(
        ("devices", "spread.nodes_per_leaf", "spread.oversubscription", "nodes.step"), ""
    ))  # fmt: skip
    assert "devices" not in emptied
    assert "spread" not in emptied
    assert emptied["nodes"] == {"minimum": 2, "maximum": 12}


def test_nodes_spares_and_rates_are_written_as_people_write_them() -> None:
    fields = study_page.filled(CONTINGENCY, FAILING) | {
        "nodes": "a  rack 1\r\n\r\nb",
        "spares": "c, d e",
        "stages": "3, x",
        "storage_gigabytes_per_second": "1.5",
        "local_checkpoints": "yes",
    }
    made = request_of("contingency", fields)
    assert made["nodes"] == [{"name": "a", "leaf": "rack 1"}, {"name": "b"}]
    assert made["spares"] == ["c", "d", "e"]
    assert made["stages"] == [3, "x"]  # for the validation to refuse by name
    assert made["storage_bytes_per_second"] == 1.5e9
    assert made["local_checkpoints"] is True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [{"job": 3}, {"nodes": 3, "spread": [], "devices": [3]}, {}])
def test_a_question_fills_the_form_even_while_it_is_wrong(
    kind: StudyKind, wrong: dict[str, Any]
) -> None:
    shown = study_page.filled(kind, wrong)
    assert json.loads(shown[JSON_FIELD]) == wrong
    request_of(kind.kind, shown)


def test_a_curve_of_a_plan_reaches_twice_its_nodes_and_leaves_replicas_open() -> None:
    whole = example_requests()["llama-3.1-70b-h100x64"]
    request = PlanRequest.model_validate(whole | {"layout": {"data_parallel": 4}})
    begun = study_start.from_plan("capacity", request, None)
    assert begun["nodes"] == {"minimum": 1, "maximum": 16}
    assert "nodes" not in begun["job"]["cluster"]
    assert "layout" not in begun["job"]
    CAPACITY.asked.model_validate(begun)
    large = whole | {"cluster": whole["cluster"] | {"nodes": 100}}
    many = study_start.from_plan("capacity", PlanRequest.model_validate(large), None)
    assert many["nodes"] == {"minimum": 13, "maximum": 200, "step": 13}


def test_contingencies_of_a_plan_are_about_its_whole_layout_and_stages() -> None:
    request = PlanRequest.model_validate(FAILING["job"] | {"layout": {}})
    layout = LayoutAnswer.model_validate(
        sample("plan")["layout"] | FAILING["job"]["layout"] | {"expert_tensor_parallel": 1}
    )
    plan: Plan = sample_plan().plan.model_copy(update={"layout": layout})
    begun = study_start.from_plan("contingency", request, plan)
    assert begun["stages"] == [4, 4]
    asked = CONTINGENCY.asked.model_validate(begun)
    assert asked.job.layout.expert_tensor_parallel == 1
    assert asked.job.layout.data_parallel == 8


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        (CAPACITY, {}, None),
        (CAPACITY, {"nodes.maximum": "0"}, "nodes.maximum"),
        (CAPACITY, {"layout.tensor_parallel": "7", "nodes.maximum": "1"}, "job.layout"),
        (CAPACITY, {"devices": "moon"}, "device"),
        (CAPACITY, {"spread.nodes_per_leaf": "4"}, "spread.oversubscription"),
        (CONTINGENCY, {}, None),
        (CONTINGENCY, {"nodes": "gpu01"}, "nodes"),
        (CONTINGENCY, {"stages": "3, x"}, "stages[1]"),
        (CONTINGENCY, {"layout.pipeline_parallel": "", "layout.data_parallel": ""}, "job.layout"),
        (CONTINGENCY, {JSON_FIELD: "{"}, JSON_FIELD),
    ],
)
def test_the_check_names_the_field(
    client: TestClient, kind: StudyKind, change: dict[str, str], field: str | None
) -> None:
    start = study_page.filled(kind, study_start.from_sample(kind.kind))
    said = client.post(f"/{kind.section}/check", data=start | change).json()
    found = [problem["field"] for problem in said["problems"]]
    if field is None:
        assert found == []
    else:
        assert len(found) == 1
        assert field in found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_is_sent_cancelled_and_asked_again(client: TestClient, kind: StudyKind) -> None:
    busy = client.post("/v1/plans", json=asking("sleep-600")).json()["id"]
    fields = study_page.filled(kind, study_start.from_sample(kind.kind)) | {"relative_gap": "0.03"}
    text = {JSON_FIELD: as_text(request_of(kind.kind, fields) | {"relative_gap": 0.03})}
    sent = client.post(f"/{kind.section}", data=text | {"from": "json"})
    assert sent.status_code == 303
    address = sent.headers["location"]
    assert "Waiting for a free worker" in client.get(address).text
    assert client.post(f"{address}/cancel").headers["location"] == address
    assert "It was cancelled." in client.get(address).text
    assert client.post(f"{address}/again").status_code == 303
    assert 'data-pending="yes"' in client.get(address).text
    client.post(f"{address}/cancel")
    like = client.get(f"/{kind.section}", params={"like": address.rsplit("/", 1)[1]})
    assert "&#34;relative_gap&#34;: 0.03" in like.text
    client.delete(f"/v1/plans/{busy}")
    assert client.post(f"/{kind.section}/unknown/again").status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_question_comes_back_filled_with_its_problem(
    client: TestClient, kind: StudyKind
) -> None:
    start = study_page.filled(kind, study_start.from_sample(kind.kind))
    answer = client.post(f"/{kind.section}", data=start | {"seconds_per_size": "", "nodes": "x",
        "nodes.maximum": "many"})  # fmt: skip
    assert answer.status_code == 422
    assert 'data-field="nodes' in answer.text
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert client.post(f"/{kind.section}", data=start, headers=headers).status_code == 403


def test_a_plan_leads_to_its_curve_and_its_contingencies(
    client: TestClient, plan_ids: list[str]
) -> None:
    assert "/capacity?plan=" not in client.get(f"/plans/{plan_ids[0]}").text  # a profile
    asked = client.post("/v1/plans", json=asking("sleep-0"), headers=WAIT).json()
    text = client.get(f"/plans/{asked['id']}").text
    assert f'href="/capacity?plan={asked["id"]}"' in text
    begun = client.get(f"/capacity?plan={asked['id']}").text
    assert "sleep-0" in begun
    assert "as the plan has it" in begun
    assert client.get("/contingencies?plan=unknown").status_code == 200
