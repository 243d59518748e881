"""Every page answers, says what it must, and lets nothing in from elsewhere."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.pages import plan_page
from service.pages.shown import ShownPlan
from service.schema_examples import sample
from service.settings import Settings
from service.store import Store
from solver.plan import Choice, Export, Price, Restriction, TradeOff
from solver.request import PlanRequest
from tests.service.conftest import TOY, WAIT, asking
from tests.service.pages.conftest import keep
from tests.service.pages.plans import sample_plan

EXPORT = Export(
    framework="deepspeed",
    version="0.18",
    file="ds.json",
    media_type="application/json",
    text='{"stages": 2}',
    exact=False,
    notes=["What it cannot say."],
)
RESTRICTION = Restriction(
    framework="deepspeed",
    version="0.18",
    setting={},
    iteration_seconds_free=0.5,
    lower_bound_seconds_free=0.5,
    cost=0.091,
)

FORM = {
    "model_form": "name",
    "model.name": "sleep-0",
    "cluster.device": "H100-SXM5-80GB",
    "cluster.nodes": "8",
    "cluster.devices_per_node": "8",
}


class Addresses(HTMLParser):
    """Collects what a page loads or leads to, inline handlers and inline styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "action"):
                self.found.append(value or "")
            if name == "style" or name.startswith("on"):
                self.inline.append(f"{tag} {name}")


@pytest.fixture
def addresses(plan_ids: list[str]) -> list[str]:
    first, second, lacking = plan_ids
    return [
        "/",
        f"/?like={first}",
        f"/plans/{first}",
        f"/plans/{first}?from=0.1&to=0.2&stage=1&critical=false",
        f"/plans/{lacking}",
        f"/compare?ids={first},{second}",
        "/compare",
        "/capacity",
        "/contingencies",
        "/guides",
    ]


def test_pages_name_no_other_host_and_carry_no_inline_code(
    client: TestClient, addresses: list[str]
) -> None:
    static = set()
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        assert "default-src 'none'" in response.headers["content-security-policy"]
        parsed = Addresses(response.text)
        assert parsed.inline == []
        assert all(found.startswith(("/", "#")) for found in parsed.found), address
        static |= {found for found in parsed.found if found.startswith("/static")}
    assert len(static) >= 5
    for found in static:
        kept = client.get(found)
        assert (kept.status_code, "immutable" in kept.headers["cache-control"]) == (200, True)


def test_the_one_script_within_a_page_is_the_one_that_its_policy_names(client: TestClient) -> None:
    page = client.get("/")
    scripts = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    assert len(scripts) == 1
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["unknown.css", "..%2frender.py", "__init__.py"])
def test_only_what_pages_are_served_with_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_every_link_of_a_plan_leads_somewhere(client: TestClient, plan_ids: list[str]) -> None:
    page = client.get(f"/plans/{plan_ids[0]}").text
    found = [link for link in Addresses(page).found if link.startswith("/")]
    for link in {link.replace("&amp;", "&") for link in found}:
        if ".png" not in link:  # a browser downloads those
            assert client.get(link).status_code == 200, link


def test_the_page_of_a_plan_says_the_answer_and_the_proof(
    client: TestClient, plan_ids: list[str]
) -> None:
    text = client.get(f"/plans/{plan_ids[0]}").text
    assert "One iteration takes 582 ms" in text
    assert "No plan is faster than" in text
    assert "curl -sS http://testserver/v1/plans" in text
    assert text.count('<svg class="picture"') >= 6
    assert "&lt;section" not in text
    assert text == client.get(f"/plans/{plan_ids[0]}").text  # kept, and the same


def test_what_frameworks_are_told_can_be_copied_and_downloaded(client: TestClient) -> None:
    answer = sample_plan().plan.model_copy(update={"exports": [EXPORT], "restriction": RESTRICTION})
    asked = PlanRequest.model_validate(sample("request") | {"target": {"framework": "deepspeed"}})
    store: Store = client.app.state.store  # type: ignore[attr-defined]
    plan_id = keep(store, asked, answer.model_dump_json())
    text = client.get(f"/plans/{plan_id}").text
    for said in ("deepspeed", "What it cannot say.", "&#34;stages&#34;: 2", "9.1%"):
        assert said in text
    file = client.get(f"/plans/{plan_id}/exports/deepspeed")
    assert file.text == EXPORT.text
    assert file.headers["content-type"].startswith("application/json")
    assert 'filename="ds.json"' in file.headers["content-disposition"]
    assert client.get(f"/plans/{plan_id}/exports/moon").status_code == 404


def test_an_infeasible_plan_says_who_misses_how_much(
    client: TestClient, plan_ids: list[str]
) -> None:
    text = client.get(f"/plans/{plan_ids[2]}").text
    assert "stage 1 misses 1.86 GiB of the 2.79 GiB" in text


def test_an_unknown_plan_is_a_page_too(client: TestClient) -> None:
    response = client.get("/plans/unknown")
    assert response.status_code == 404
    assert "There is no plan" in response.text
    assert client.get("/plans/unknown/trace.json").status_code == 404
    assert client.get("/guides/unknown").status_code == 404


def test_why_other_layouts_lost_and_what_would_help_is_said(
    client: TestClient, plan_ids: list[str]
) -> None:
    text = client.get(f"/plans/{plan_ids[0]}").text
    assert "What would help" in text
    assert "optimal, proved" in text
    for part, _ in sample_plan().contents:
        assert f'<section id="{part}"' in text, part


def test_prices_choices_and_time_against_memory_are_shown() -> None:
    shown = sample_plan()
    seconds = shown.plan.iteration_seconds or 1.0
    price = Price(restriction="one recipe for all", iteration_seconds=seconds, slower=0.031)
    choice = Choice(
        field="zero_stage",
        value=3,
        chosen=False,
        iteration_seconds=None,
        lower_bound_seconds=seconds,
        slower_at_least=0.042,
        slower_at_most=None,
    )
    less = TradeOff(
        memory_bytes=2e10,
        peak_memory_bytes=1.9e10,
        iteration_seconds=seconds,
        lower_bound_seconds=seconds,
    )
    assert shown.plan.explanation is not None
    explained = shown.plan.explanation.model_copy(update={"prices": [price]})
    found = {"explanation": explained, "choices": [choice], "trade_off": [less]}
    more = ShownPlan(shown.request, shown.plan.model_copy(update=found))
    text = plan_page.report("x", more)
    assert text.count("one recipe for all") == 1
    for said in ("one recipe for all", "+3.1%", "zero stage", "4.2%", "18.6 GiB"):
        assert said in text


def test_the_proof_says_which_bound_decided_against_how_many_layouts() -> None:
    shown = sample_plan()
    assert shown.plan.solver is not None
    report = shown.plan.solver.model_copy(
        update={"layouts_considered": 40, "pruned_by": {"work": 0, "memory": 9, "bubble": 30}}
    )
    found = ShownPlan(shown.request, shown.plan.model_copy(update={"solver": report}))
    assert [count for _, count in found.pruned] == [30, 9]
    text = plan_page.report("x", found)
    assert "Bubble: " in text
    assert "75%" in text
    assert "Work: " not in text


def test_the_store_is_open_before_the_first_reader_comes(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/plans.db", planner=TOY, solver_processes=1
    )
    with TestClient(create_app(settings)) as fresh:
        assert fresh.app.state.store.engine.pool.checkedin() > 0  # type: ignore[attr-defined]


def test_a_picture_that_there_is_not_is_not_found(client: TestClient, plan_ids: list[str]) -> None:
    assert client.get(f"/plans/{plan_ids[0]}/pictures/moon.svg").status_code == 404
    assert client.get(f"/plans/{plan_ids[2]}/pictures/timeline.png").status_code == 404


def test_the_form_asks_for_a_plan_and_leads_to_it(client: TestClient) -> None:
    response = client.post("/", data=FORM)
    assert response.status_code == 303
    assert client.get(response.headers["location"]).status_code == 200


def test_a_bad_form_comes_back_filled_with_its_problem(client: TestClient) -> None:
    response = client.post("/", data=FORM | {"layout.tensor_parallel": "eight"})
    assert response.status_code == 422
    assert "layout.tensor_parallel" in response.text
    assert 'value="eight"' in response.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model.name": "refused"}, "layout.tensor_parallel"),
        ({"cluster.nodes": "-3"}, "cluster.nodes"),
        ({"model_form": "huggingface"}, "model.huggingface"),
        ({}, None),
    ],
)
def test_the_check_names_the_field(
    client: TestClient, change: dict[str, str], field: str | None
) -> None:
    said = client.post("/check", data=FORM | change).json()
    assert [problem["field"] for problem in said["problems"]] == ([field] if field else [])


def test_forms_of_other_sites_are_refused(client: TestClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/", data=FORM, headers=headers).status_code == 403
    assert client.post("/check", data=FORM, headers=headers).status_code == 403


def test_cancel_stops_a_solve_and_spares_a_plan(client: TestClient, plan_ids: list[str]) -> None:
    asked = client.post("/v1/plans", json=asking("sleep-600")).json()["id"]
    assert "Looking for the best plan" in client.get(f"/plans/{asked}").text
    client.post(f"/plans/{asked}/cancel")
    assert "The solve was cancelled" in client.get(f"/plans/{asked}").text
    client.post(f"/plans/{plan_ids[0]}/cancel")
    assert client.get(f"/plans/{plan_ids[0]}").status_code == 200


def test_a_batch_says_what_is_not_as_expected(client: TestClient) -> None:
    case = {"name": "the <first>", "request": asking("sleep-0")}
    slow = {
        "name": "slow",
        "request": asking("sleep-0"),
        "expectations": {"max_iteration_seconds": 1},
    }
    asked = client.post(
        "/v1/batches",
        json={"name": "nightly", "cases": [case, slow]},
        headers=WAIT,
    )
    text = client.get(f"/batches/{asked.json()['id']}").text
    for said in ("nightly", "the &lt;first&gt;", "1 of 2 cases is not as expected.", "passed"):
        assert said in text
    links = [a for a in Addresses(text).found if a.startswith(("/v1", "/plans"))]
    assert {client.get(link).status_code for link in links} == {200}
    assert client.get("/batches/unknown").status_code == 404


def test_a_batch_under_way_follows_itself(client: TestClient) -> None:
    cases = [{"request": asking("sleep-600")}]
    asked = client.post("/v1/batches", json={"cases": cases}).json()
    text = client.get(f"/batches/{asked['id']}").text
    assert "0 of 1 cases are done." in text
    assert 'data-pending="yes"' in text
    client.delete(f"/v1/plans/{asked['cases'][0]['plan_id']}")


def test_guides_lead_to_each_other_and_nowhere_else(client: TestClient) -> None:
    links = [link for link in Addresses(client.get("/guides").text).found if "/guides/" in link]
    assert len(links) >= 3
    found = {link: set(Addresses(client.get(link).text).found) for link in links}
    for there in set().union(*found.values()):
        assert there.startswith(("/", "#")), there
        if there.startswith("/"):
            assert client.get(there).status_code == 200, there


def test_hostile_names_stay_text(client: TestClient) -> None:
    name = "<script>alert(1)</script>"
    asked = client.post("/v1/plans", json=asking(name)).json()["id"]
    for address in (f"/plans/{asked}", "/", f"/?like={asked}"):
        text = client.get(address).text
        assert name not in text
    assert "&lt;script&gt;" in client.get(f"/plans/{asked}").text


def test_the_report_is_one_file_without_scripts_or_addresses() -> None:
    text = plan_page.report("x", sample_plan())
    assert "<script" not in text
    assert [a for a in Addresses(text).found if not a.startswith("#")] == []
    assert "<style>" in text
    assert text.count("<svg") >= 6


def test_what_browsers_find_where_there_is_nothing_is_a_page(client: TestClient) -> None:
    people, programs = {"Accept": "text/html,*/*;q=0.8"}, {"Accept": "*/*"}
    page = client.get("/nowhere", headers=people)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"]
    assert "There is nothing at GET /nowhere." in page.text
    for address, accepted in (("/nowhere", programs), ("/v1/nowhere", people)):
        told = client.get(address, headers=accepted)
        assert told.headers["content-type"] == "application/problem+json"


def test_a_page_that_fails_says_under_which_request_the_log_tells_of_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(plan_page, "without_answer", fails)
    monkeypatch.setattr(plan_page, "waiting", fails)
    asked_for = client.post("/v1/plans", json=asking("sleep-0.01"))
    patient = TestClient(client.app, raise_server_exceptions=False)
    monkeypatch.setattr(plan_page, "answered", fails)
    page = patient.get(
        f"/plans/{asked_for.json()['id']}",
        headers={"Accept": "text/html", "X-Request-ID": "mine-1"},
    )
    assert page.status_code == 500
    assert "The service failed" in page.text
    assert '<span class="id">mine-1</span>' in page.text
    assert "secret" not in page.text
