"""Accepted work survives whatever happens to the process that accepted it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.jobs.intake import Asked, plan_row
from service.jobs.runner import Runner
from service.settings import Settings
from service.store import Store, jobs, plans, schema
from solver.request import PlanRequest
from tests.service.conftest import asking
from tests.service.eventually import eventually
from tests.service.toy_planner import gate

ASKED = Asked(PlanRequest.model_validate(asking("quick")))


def left_behind(settings: Settings) -> tuple[Store, int]:
    """A store with one queued job, as a service leaves it that is killed right after its 202."""
    store = Store(settings.database_url)
    schema.migrate(store.engine)
    with store.writing() as session:
        plans.add(session, plan_row(ASKED, time.time()))
        job_id = jobs.add(session, ASKED.plan_id, priority=0, deadline_at=None, now=time.time())
    return store, job_id


def finished_status(settings: Settings) -> str:
    """The plan's status once a new service has taken it up."""

    def ended() -> str | None:
        status: str = service.get(f"/v1/plans/{ASKED.plan_id}").json()["status"]
        return None if status in ("queued", "running") else status

    with TestClient(create_app(settings)) as service:
        return str(eventually(ended, "the end of the plan"))


def test_a_queued_job_is_taken_up_at_start(settings: Settings) -> None:
    left_behind(settings)
    assert finished_status(settings) == "succeeded"


def test_a_running_job_of_a_silent_worker_is_taken_over(settings: Settings) -> None:
    store, job_id = left_behind(settings)
    with store.writing() as session:
        long_ago = time.time() - 3600
        assert jobs.claim(session, job_id, "dead", silent_since=0, now=long_ago)
    assert finished_status(settings) == "succeeded"


def test_a_job_whose_workers_keep_dying_fails(settings: Settings) -> None:
    store, job_id = left_behind(settings)
    long_ago = time.time() - 3600
    with store.writing() as session:
        for attempt in range(settings.max_attempts):
            assert jobs.claim(session, job_id, f"dead-{attempt}", long_ago + 1, now=long_ago)
    assert finished_status(settings) == "failed"


def test_a_job_that_cannot_be_begun_fails_instead_of_coming_back_for_ever(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> tuple[str, float]:
        raise LookupError("its request cannot be read")

    monkeypatch.setattr(Runner, "_assignment", unreadable)
    left_behind(settings)
    soon_given_up = settings.model_copy(update={"heartbeat_timeout_seconds": 0.5})
    assert finished_status(soon_given_up) == "failed"


def test_a_job_is_claimed_by_one_worker_only(settings: Settings) -> None:
    store, job_id = left_behind(settings)
    now = time.time()
    with store.writing() as session:
        assert jobs.claim(session, job_id, "one", now - 10, now)
        assert jobs.claim(session, job_id, "other", now - 10, now) == []


def test_only_the_holder_of_a_job_can_finish_it(settings: Settings) -> None:
    store, job_id = left_behind(settings)
    long_ago, now = time.time() - 3600, time.time()
    with store.writing() as session:
        jobs.claim(session, job_id, "slow", long_ago, long_ago)
        jobs.claim(session, job_id, "fast", now - 10, now)
        assert not jobs.finish(session, job_id, "slow", "failed", now)
        assert jobs.beat(session, [job_id], "slow", job_id, None, now) == {}
        assert jobs.beat(session, [job_id], "fast", job_id, None, now) == {job_id: None}
        assert jobs.finish(session, job_id, "fast", "succeeded", now)
        assert not jobs.finish(session, job_id, "fast", "failed", now)


def test_an_answer_is_written_once(settings: Settings) -> None:
    store, _ = left_behind(settings)
    with store.writing() as session:
        plans.finish(session, ASKED.plan_id, plans.Result("succeeded", answer='{"a":1}'), 1.0)
        plans.finish(session, ASKED.plan_id, plans.Result("failed", problem="{}"), 2.0)
        plans.set_status(session, ASKED.plan_id, "queued")
    with store.reading() as session:
        stored = plans.find(session, ASKED.plan_id)
    assert stored is not None
    assert (stored.status, stored.answer) == ("succeeded", '{"a":1}')


def test_a_graceful_stop_hands_the_job_back_at_once(settings: Settings, solve_log: Path) -> None:
    with TestClient(create_app(settings)) as service:
        url = service.post("/v1/plans", json=asking("until-told")).headers["location"]
        eventually(solve_log.read_text, "a solve")
        assert service.get(url).json()["status"] == "running"
    gate(solve_log, "told").touch()
    with TestClient(create_app(settings)) as service:
        eventually(lambda: service.get(url).json()["status"] == "succeeded", "the plan")
    assert solve_log.read_text().splitlines() == ["until-told", "until-told"]
