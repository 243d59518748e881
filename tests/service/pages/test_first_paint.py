"""A plan page is seen hardly later than a page of plain text, as a browser measures it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from service.store import Store
from solver.request import PlanRequest
from tests.service.pages.browser import browser
from tests.service.pages.conftest import keep
from tests.service.pages.plans import long_pipeline, sample_plan
from tests.service.pages.running import running

pytestmark = pytest.mark.slow

MOST_MILLISECONDS_MORE = 90.0
MOST_ROUNDS = 8
FIRST_CONTENT = """() => new Promise((seen) => new PerformanceObserver((found) => {
  const first = found.getEntriesByName("first-contentful-paint")[0];
  if (first) seen(first.startTime);
}).observe({ type: "paint", buffered: true }))"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


def seen_after(context: BrowserContext, address: str) -> float:
    """Milliseconds from the navigation to the first content."""
    page = context.new_page()
    page.goto(address, wait_until="commit")
    milliseconds = page.evaluate(FIRST_CONTENT)
    page.close()
    return float(milliseconds)


def test_a_plan_is_seen_within_90_ms_of_plain_text(chromium: Browser, tmp_path: Path) -> None:
    """The best of up to eight rounds, because what else runs on the machine delays paints."""
    with running(tmp_path) as origin:
        store = Store(f"sqlite:///{tmp_path}/plans.db")
        plan = sample_plan()
        deep = plan.request.model_dump(mode="json") | {"cluster": {"memory_bytes": 6e10}}
        pages = [
            f"{origin}/plans/{keep(store, request, answer.plan.model_dump_json())}"
            for request, answer in (
                (plan.request, plan),
                (PlanRequest.model_validate(deep), long_pipeline()),
            )
        ]
        store.close()
        context = chromium.new_context()
        plain = f"{origin}/healthz"
        least = dict.fromkeys([plain, *pages], float("inf"))
        for _ in range(MOST_ROUNDS):
            for address in least:
                least[address] = min(least[address], seen_after(context, address))
            if all(least[page] <= least[plain] + MOST_MILLISECONDS_MORE for page in pages):
                break
        context.close()
    later = [least[page] - least[plain] for page in pages]
    assert max(later) <= MOST_MILLISECONDS_MORE
