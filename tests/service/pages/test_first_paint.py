"""A browser has little to do before it shows the first of a plan page.

What a clock says of that depends on what else the machine does; what Chromium's own trace says of
the processor time of the page's thread does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext

from service.schema_examples import sample
from service.store import Store
from solver.request import PlanRequest
from tests.pace import pace
from tests.service.pages.browser import browser
from tests.service.pages.conftest import keep
from tests.service.pages.plans import long_pipeline
from tests.service.pages.running import running

pytestmark = pytest.mark.slow

MOST_MILLISECONDS = 40.0
MOST_ROUNDS = 3
_SEEN = "performance.getEntriesByName('first-contentful-paint').length"
WORK = {"ParseHTML", "ParseAuthorStyleSheet", "UpdateLayoutTree", "Layout", "PrePaint", "Paint"}


def traced(chromium: Browser, context: BrowserContext, address: str) -> list[dict[str, Any]]:
    """The events of opening a page until everything of it is there."""
    events: list[dict[str, Any]] = []
    done: list[object] = []
    page = context.new_page()
    session = chromium.new_browser_cdp_session()
    session.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
    session.on("Tracing.tracingComplete", lambda data: done.append(data))
    categories = ["devtools.timeline", "blink.user_timing", "loading"]
    session.send("Tracing.start", {"traceConfig": {"includedCategories": categories}})
    page.goto(address)
    while not page.evaluate(_SEEN):  # the policy of the pages lets nothing be waited for in them
        page.wait_for_timeout(20)
    session.send("Tracing.end")
    while not done:
        page.wait_for_timeout(20)
    session.detach()
    page.close()
    return events


def work_before_first_content(events: list[dict[str, Any]], address: str) -> float:
    """Milliseconds of processor time that the page's thread took until the first content."""
    begun = next(
        event["ts"]
        for event in events
        if event["name"] == "navigationStart" and address in str(event["args"])
    )
    seen = next(
        event for event in events if event["name"] == "firstContentfulPaint" and event["ts"] > begun
    )
    thread = seen["pid"], seen["tid"]
    return sum(
        event.get("tdur", 0) / 1000
        for event in events
        if event["name"] in WORK
        and (event["pid"], event["tid"]) == thread
        and begun <= event["ts"] <= seen["ts"]
    )


def test_a_plan_of_64_stages_is_seen_after_less_than_40_ms_of_work(tmp_path: Path) -> None:
    with running(tmp_path) as origin, browser() as chromium:
        store = Store(f"sqlite:///{tmp_path}/plans.db")
        request = PlanRequest.model_validate(sample("request"))
        plan = f"{origin}/plans/{keep(store, request, long_pipeline().plan.model_dump_json())}"
        store.close()
        context = chromium.new_context()
        first = context.new_page()
        first.goto(plan)  # kept from then on, so that all of it arrives at once
        first.close()
        least = float("inf")
        for _ in range(MOST_ROUNDS):
            events = traced(chromium, context, plan)
            least = min(least, work_before_first_content(events, plan))
            if least < MOST_MILLISECONDS:
                break
        context.close()
    assert least < MOST_MILLISECONDS * pace()
