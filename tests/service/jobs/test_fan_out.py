"""A large search is shared out among whoever has a free hand, and ends as if one had made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from service.app import create_app
from service.jobs.fan_out import KIND
from service.settings import Settings
from service.store import Store, plans
from service.store.tables import JobRow, PlanRow
from tests.service.conftest import WAIT, asking
from tests.service.eventually import eventually
from tests.service.toy_planner import gate


def settled(service: TestClient, url: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        plan: dict[str, Any] = service.get(url).json()
        return None if plan["status"] in ("queued", "running") else plan

    return eventually(ended, "the end of the plan") or {}


def parts_left(settings: Settings) -> dict[str, int]:
    """How many parts the store has, by status."""
    with Store(settings.database_url).reading() as session:
        rows = session.execute(
            select(PlanRow.status, func.count().label("number"))
            .where(PlanRow.kind == KIND)
            .group_by(PlanRow.status)
        ).all()
        return {row.status: row.number for row in rows}


def none_is_at_work(settings: Settings) -> bool:
    return not set(parts_left(settings)) & {"queued", "running"}


def test_the_plan_is_made_of_all_parts_in_their_order(
    service: TestClient, settings: Settings, solve_log: Path
) -> None:
    answer = service.post("/v1/plans", json=asking("parts-5-sleep-0.1"), headers=WAIT)
    assert answer.json()["error"] == "7 [0, 1, 2, 3, 4]"
    began, *parts, end = solve_log.read_text().split()
    assert (began, sorted(parts), end) == ("parts-5-sleep-0.1", ["sleep-0.1"] * 5, "gather")
    assert parts_left(settings) == {}


def test_parts_run_side_by_side(service: TestClient, settings: Settings, solve_log: Path) -> None:
    url = service.post("/v1/plans", json=asking("parts-4-until-all")).headers["location"]
    eventually(
        lambda: solve_log.read_text().split().count("until-all") == settings.solver_processes,
        "as many parts at a time as there are processes",
    )
    gate(solve_log, "all").touch()
    assert settled(service, url)["status"] == "succeeded"
    lines = Path(f"{solve_log}.workers").read_text().splitlines()
    assert len({line.split()[1] for line in lines[1:-1]}) == settings.solver_processes


@pytest.mark.usefixtures("solve_log")
def test_one_process_is_enough(settings: Settings) -> None:
    alone = settings.model_copy(update={"solver_processes": 1})
    with TestClient(create_app(alone)) as service:
        url = service.post("/v1/plans", json=asking("parts-3-quick")).headers["location"]
        assert settled(service, url)["error"] == "7 [0, 1, 2]"


@pytest.mark.parametrize(("work", "said"), [("refused", "A part is refused."), ("bug", "a mista")])
def test_a_part_that_fails_fails_the_plan_and_nothing_else(
    service: TestClient, settings: Settings, work: str, said: str
) -> None:
    url = service.post("/v1/plans", json=asking(f"parts-2-{work}")).headers["location"]
    plan = settled(service, url)
    assert plan["status"] == "failed"
    assert said in plan["problem"]["detail"]
    other = service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    assert other.json()["status"] == "succeeded"
    eventually(lambda: none_is_at_work(settings), "the end of the other parts")


def test_a_part_that_kills_its_process_again_and_again_fails_the_plan(
    settings: Settings, solve_log: Path
) -> None:
    short = settings.model_copy(update={"max_attempts": 1})
    with TestClient(create_app(short)) as service:
        url = service.post("/v1/plans", json=asking("parts-2-crash")).headers["location"]
        assert "SIGKILL" in settled(service, url)["problem"]["detail"]
    assert solve_log.read_text().split().count("crash") <= 2


def test_a_cancelled_search_cancels_its_parts(service: TestClient, settings: Settings) -> None:
    url = service.post("/v1/plans", json=asking("parts-6-until-never")).headers["location"]
    eventually(lambda: parts_left(settings).get("running"), "a part at work")
    assert service.delete(url).status_code in (200, 202, 204)
    eventually(lambda: none_is_at_work(settings), "the end of all parts")
    quick = service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    assert quick.json()["status"] == "succeeded"


def test_a_graceful_stop_keeps_what_parts_have_found(settings: Settings, solve_log: Path) -> None:
    alone = settings.model_copy(update={"solver_processes": 1})
    with TestClient(create_app(alone)) as service:
        url = service.post("/v1/plans", json=asking("parts-3-sleep-0.5")).headers["location"]
        eventually(lambda: parts_left(settings).get("succeeded", 0) >= 2, "the end of two parts")
    with TestClient(create_app(alone)) as service:
        assert settled(service, url)["status"] == "succeeded"
    assert 4 <= solve_log.read_text().split().count("sleep-0.5") + 1 <= 5


def test_parts_are_no_plans(service: TestClient, settings: Settings, solve_log: Path) -> None:
    url = service.post("/v1/plans", json=asking("parts-2-until-seen")).headers["location"]
    store = Store(settings.database_url)
    eventually(lambda: parts_left(settings), "a part")
    with store.reading() as session:
        part = session.scalar(select(PlanRow.id).where(PlanRow.kind == KIND))
        assert [row.id for row in plans.page(session, 10)] == [url.rpartition("/")[2]]
        assert session.scalar(select(func.count()).select_from(JobRow)) >= 2
    assert service.get(f"/v1/plans/{part}").status_code == 404
    gate(solve_log, "seen").touch()
    settled(service, url)
