"""A plan's progress as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from service.client import AsyncClient, Client
from service.settings import Settings
from tests.service.conftest import asking
from tests.service.running import running
from tests.service.toy_planner import gate


def accepted(service: TestClient, model: str) -> str:
    plan_id: str = service.post("/v1/plans", json=asking(model)).json()["id"]
    return plan_id


def events(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Id, kind and data of the events of a stream."""
    found = []
    for block in text.split("\n\n"):
        if block and not block.startswith(":"):
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            found.append((lines["id"], lines["event"], json.loads(lines["data"])))
    return found


def streamed(url: str, heard: Callable[[str], object]) -> str:
    """All of an event stream; ``heard`` is called with what there is of it after each piece."""
    text = ""
    with httpx2.stream("GET", url, timeout=300.0) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for piece in response.iter_text():
            text += piece
            heard(text)
    return text


def test_a_solve_is_followed_to_its_end(settings: Settings, solve_log: Path) -> None:
    progress = {"incumbent_seconds": 2.0, "bound_seconds": 1.0}

    def heard(text: str) -> None:
        if "incumbent_seconds" in text:
            gate(solve_log, "heard").touch()

    with running(settings) as url, Client(url) as client:
        plan_id = client.submit(asking("until-heard")).id
        told = events(streamed(f"{url}/v1/plans/{plan_id}/events", heard))
    kinds = [kind for _, kind, _ in told]
    assert kinds == ["progress"] * (len(told) - 1) + ["finished"]
    assert any(data.get("progress") == progress for _, _, data in told)
    assert told[-1][2] == {"id": plan_id, "status": "succeeded"}


def test_a_failed_solve_ends_with_its_reason(service: TestClient) -> None:
    plan_id = accepted(service, "bug")
    *_, (_, kind, data) = events(service.get(f"/v1/plans/{plan_id}/events").text)
    assert (kind, data["status"]) == ("finished", "failed")
    assert "a mistake in the solver" in data["problem"]["detail"]


def test_what_was_heard_is_not_told_again(service: TestClient) -> None:
    url = f"/v1/plans/{accepted(service, 'quick')}/events"
    *_, (last, _, _) = events(service.get(url).text)
    again = service.get(url, headers={"Last-Event-ID": last})
    assert (again.status_code, again.content) == (204, b"")
    other = service.get(url, headers={"Last-Event-ID": "something else"})
    assert [identity for identity, _, _ in events(other.text)] == [last]


def test_a_silent_stream_says_that_it_is_alive(settings: Settings, solve_log: Path) -> None:
    assert solve_log.exists()
    restless = settings.model_copy(update={"event_silence_seconds": 0.05, "works": False})
    with running(restless) as url, Client(url) as client:
        plan_id = client.submit(asking("until-never")).id

        def heard(text: str) -> None:
            if text.count(": nothing new\n\n") == 2:
                client.cancel(plan_id)

        text = streamed(f"{url}/v1/plans/{plan_id}/events", heard)
    assert text.count(": nothing new\n\n") >= 2
    assert [data["status"] for _, _, data in events(text)] == ["queued", "cancelled"]


def test_there_are_no_events_of_an_unknown_plan(service: TestClient) -> None:
    response = service.get("/v1/plans/nothing/events")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_another_process_on_the_same_store_tells_them_too(
    settings: Settings, solve_log: Path
) -> None:
    """The server that is asked does not solve; it hears of the solve through the store."""
    assert solve_log.exists()

    async def followed(url: str, plan_id: str) -> list[str]:
        told = []
        async with AsyncClient(url) as client:
            async for event in client.events(plan_id):
                told.append(event.status.value)
                if event.status.value == "running":
                    gate(solve_log, "heard").touch()
        return told

    deaf = settings.model_copy(update={"works": False})
    with running(settings), running(deaf) as other, Client(other) as client:
        told = asyncio.run(followed(other, client.submit(asking("until-heard")).id))
    assert told[-1] == "succeeded"
    assert "running" in told
