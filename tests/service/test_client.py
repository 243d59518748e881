"""The Python client, sync and async, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.client import AsyncClient, Client
from service.documents import Progress
from service.problems import ProblemError
from service.schema_examples import sample
from tests.service.conftest import TOY, asking, patient
from tests.service.running import running
from tests.service.toy_planner import SOLVE_LOG, gate


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """To which solves add lines, and for whose gates they wait."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("log") / "solves"
        patch.setenv(SOLVE_LOG, str(path))
        yield path


@pytest.fixture(scope="module")
def url(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert log.parent.exists()
    database = f"sqlite:///{tmp_path_factory.mktemp('service')}/a.db"
    with running(patient(database_url=database, planner=TOY, heartbeat_seconds=0.1)) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


def test_a_plan_is_waited_for(client: Client) -> None:
    assert client.plan(asking("sleep-0.2")).status == "succeeded"


def test_progress_is_told_while_waiting(client: Client, log: Path) -> None:
    told: list[Progress] = []

    def tell(progress: Progress) -> None:
        told.append(progress)
        gate(log, "told").touch()

    client.plan(asking("until-told"), tell)
    assert told[0].incumbent_seconds == 2.0


def test_a_plan_can_be_submitted_read_and_cancelled(client: Client) -> None:
    plan = client.submit(asking("until-never"))
    assert plan.status in ("queued", "running")
    client.cancel(plan.id)
    assert client.read(plan.id).status == "cancelled"


def test_a_plan_can_be_followed(client: Client, log: Path) -> None:
    told = []
    for event in client.events(client.submit(asking("until-followed")).id):
        told.append(event)
        if event.progress and event.progress.bound_seconds == 1.0:
            gate(log, "followed").touch()
    assert told[-1].status == "succeeded"
    assert any(event.progress for event in told)


def test_following_nothing_is_a_problem(client: Client) -> None:
    with pytest.raises(ProblemError, match="There is no plan"):
        next(client.events("nothing"))


def test_plans_are_listed_a_page_at_a_time(client: Client) -> None:
    for number in range(3):
        client.submit(asking(f"m{number}"), wait_seconds=50)
    page = client.plans(limit=2)
    assert len(page.plans) == 2
    assert page.next
    assert client.plans(limit=2, cursor=page.next).plans


def test_a_problem_is_raised(client: Client) -> None:
    with pytest.raises(ProblemError) as caught:
        client.plan(asking("refused"))
    assert caught.value.problem.field == "layout.tensor_parallel"
    with pytest.raises(ProblemError):
        client.evaluate(asking("m"))
    with pytest.raises(ProblemError):
        client.read("nothing")


def test_catalogues_and_health_are_read(client: Client) -> None:
    assert client.models().models
    assert client.devices().devices
    assert client.health().status == "ok"


def test_the_async_client_does_the_same(url: str) -> None:
    async def all_of_it() -> None:
        async with AsyncClient(url) as client:
            plan = await client.plan(asking("sleep-0.2"))
            assert plan.status == "succeeded"
            assert (await client.read(plan.id)).id == plan.id
            assert (await client.plans()).plans
            assert (await client.models()).models
            assert (await client.devices()).devices
            assert (await client.health()).status == "ok"
            other = await client.submit(asking("until-never"))
            await client.cancel(other.id)
            with pytest.raises(ProblemError):
                await client.evaluate(asking("m"))

    asyncio.run(all_of_it())


def test_the_real_solver_answers_through_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = patient(database_url=f"sqlite:///{tmp_path_factory.mktemp('real')}/a.db")
    request = sample("request")
    with running(settings) as url, Client(url) as client:
        plan = client.plan(request)
        evaluation = client.evaluate(request)
    assert plan.iteration_seconds is not None
    assert plan.lower_bound_seconds is not None
    assert plan.lower_bound_seconds <= plan.iteration_seconds <= evaluation.iteration_seconds
