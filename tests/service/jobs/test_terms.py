"""When work is done: the urgent first, nothing after its deadline, small jobs together."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.app import create_app
from service.jobs.hold import Hold, expire
from service.jobs.intake import Asked, plan_row
from service.retention import prune
from service.settings import Settings
from service.store import Store, jobs, plans, schema
from service.store.tables import JobRow
from solver.request import PlanRequest
from tests.service.conftest import WAIT, asking
from tests.service.eventually import eventually
from tests.service.toy_planner import gate


@pytest.fixture
def store(settings: Settings) -> Store:
    store = Store(settings.database_url)
    schema.migrate(store.engine)
    return store


def queued(store: Store, model: str, *, priority: int = 0, chunk: str | None = None) -> int:
    asked = Asked(PlanRequest.model_validate(asking(model)))
    with store.writing() as session:
        plans.add(session, plan_row(asked, time.time()))
        return jobs.add(session, asked.plan_id, priority, None, time.time(), chunk)


def waiting(store: Store) -> list[int]:
    with store.reading() as session:
        return [job_id for job_id, _ in jobs.waiting(session, time.time() - 600, 100)]


def one_hand(settings: Settings, **changes: object) -> Settings:
    return settings.model_copy(update={"solver_processes": 1, **changes})


def keep_busy(service: TestClient, solve_log: Path) -> None:
    """Give the one hand something to do until all is asked."""
    service.post("/v1/plans", json=asking("until-asked"))
    eventually(solve_log.read_text, "the first solve")


def test_interactive_work_goes_before_batch_work(settings: Settings, solve_log: Path) -> None:
    with TestClient(create_app(one_hand(settings))) as service:
        keep_busy(service, solve_log)
        for model in ("batch-1", "batch-2"):
            service.post("/v1/plans?priority=batch", json=asking(model))
        service.post("/v1/plans", json=asking("urgent"))
        gate(solve_log, "asked").touch()
        service.post("/v1/plans?priority=batch", json=asking("batch-2"), headers=WAIT)
    assert solve_log.read_text().splitlines() == ["until-asked", "urgent", "batch-1", "batch-2"]


def test_who_asks_more_urgently_moves_the_plan_forward(settings: Settings, solve_log: Path) -> None:
    with TestClient(create_app(one_hand(settings))) as service:
        keep_busy(service, solve_log)
        for model in ("batch-1", "batch-2"):
            service.post("/v1/plans?priority=batch", json=asking(model))
        service.post("/v1/plans", json=asking("batch-2"))
        gate(solve_log, "asked").touch()
        service.post("/v1/plans", json=asking("batch-2"), headers=WAIT)
        service.post("/v1/plans?priority=batch", json=asking("batch-1"), headers=WAIT)
    assert solve_log.read_text().splitlines() == ["until-asked", "batch-2", "batch-1"]


def test_terms_are_no_part_of_what_is_asked(service: TestClient) -> None:
    plain = service.post("/v1/plans", json=asking("quick"), headers=WAIT).json()
    other = service.post("/v1/plans?priority=batch&deadline=60", json=asking("quick")).json()
    assert other == plain


def test_a_solve_ends_at_its_deadline(service: TestClient) -> None:
    answer = service.post("/v1/plans?deadline=0.5", json=asking("until-never"), headers=WAIT).json()
    assert answer["status"] == "failed"
    assert answer["problem"]["type"].endswith("deadline-passed")


def test_who_has_no_deadline_lifts_that_of_another(
    service: TestClient, settings: Settings, solve_log: Path
) -> None:
    def deadlines() -> list[float | None]:
        with Store(settings.database_url).reading() as session:
            return list(session.scalars(select(JobRow.deadline_at)))

    service.post("/v1/plans?deadline=600", json=asking("until-lifted"))
    assert deadlines() != [None]
    service.post("/v1/plans", json=asking("until-lifted"))
    assert deadlines() == [None]
    gate(solve_log, "lifted").touch()
    assert service.post("/v1/plans", json=asking("until-lifted"), headers=WAIT).json()["fits"]


def test_what_waits_past_its_deadline_fails_without_a_solve(store: Store) -> None:
    asked = Asked(PlanRequest.model_validate(asking("late")))
    with store.writing() as session:
        plans.add(session, plan_row(asked, time.time()))
        jobs.add(session, asked.plan_id, 0, time.time() - 1, time.time())
    assert expire(store) == [asked.plan_id]
    with store.reading() as session:
        assert plans.standings(session, [asked.plan_id])[asked.plan_id].status == "failed"
    assert expire(store) == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("priority=urgent", "priority"),
        ("deadline=-1", "deadline"),
        ("deadline=soon", "deadline"),
        ("deadline=inf", "deadline"),
        ("deadline=nan", "deadline"),
    ],
)
def test_terms_that_do_not_fit_are_named(service: TestClient, query: str, field: str) -> None:
    response = service.post(f"/v1/plans?{query}", json=asking("quick"))
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert service.get("/v1/plans").json()["plans"] == []


def test_jobs_of_a_chunk_are_carried_and_taken_together(store: Store) -> None:
    first, second = queued(store, "a", chunk="c"), queued(store, "b", chunk="c")
    alone, urgent = queued(store, "d"), queued(store, "e", priority=10)
    assert waiting(store) == [urgent, first, alone]
    hold = Hold.take(store, first, "one", 600.0)
    assert [claim.job_id for claim in hold.claims] == [first, second]
    assert Hold.take(store, second, "other", 600.0).claims == []
    assert waiting(store) == [urgent, alone]


def test_a_hand_over_keeps_what_is_done_and_queues_the_rest(store: Store) -> None:
    first, second = queued(store, "a", chunk="c"), queued(store, "b", chunk="c")
    hold = Hold.take(store, first, "one", 600.0)
    hold.note(hold.claims[0], plans.Result("succeeded", answer="{}"))
    hold.hand_back()
    assert waiting(store) == [second]
    with store.reading() as session:
        statuses = {row.model: row.status for row in plans.page(session, 10)}
    assert statuses == {"a": "succeeded", "b": "queued"}


def test_what_was_tried_before_is_tried_alone(store: Store) -> None:
    first, second = queued(store, "a", chunk="c"), queued(store, "b", chunk="c")
    Hold.take(store, first, "dead", 600.0)
    with store.reading() as session:
        later = time.time() + 60
        assert [job_id for job_id, _ in jobs.waiting(session, later, 100)] == [first, second]
    with store.writing() as session:
        taken = jobs.claim(session, first, "next", time.time() + 60, time.time())
    assert [(claim.job_id, claim.attempts) for claim in taken] == [(first, 2)]


def test_a_cancelled_job_leaves_the_hold_at_the_next_heartbeat(store: Store) -> None:
    first, second = queued(store, "a", chunk="c"), queued(store, "b", chunk="c")
    hold = Hold.take(store, first, "one", 600.0)
    one, other = hold.claims
    with store.writing() as session:
        assert jobs.cancel(session, other.plan_id, time.time()) == second
    hold.beat(one, {"layouts_done": 1})
    assert hold.has(one)
    assert not hold.has(other)
    with store.reading() as session:
        assert jobs.progress_of(session, one.plan_id) == '{"layouts_done": 1}'


def test_only_what_was_finished_long_ago_is_removed(
    service: TestClient, settings: Settings
) -> None:
    service.post("/v1/plans", json=asking("quick"), headers=WAIT)
    service.post("/v1/plans", json=asking("until-never"))
    store = Store(settings.database_url)
    assert prune(store, days=1) == 0
    assert prune(store, days=0) == 1
    assert [plan["model"] for plan in service.get("/v1/plans").json()["plans"]] == ["until-never"]
