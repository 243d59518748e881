"""Writes every page as a picture, light and dark, wide and narrow: ``python -m ... FOLDER``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from playwright.sync_api import Browser

from service.schema_examples import example_requests, sample
from service.store import Store
from solver.request import PlanRequest
from tests.service.conftest import TOY, asking
from tests.service.pages.browser import browser
from tests.service.pages.conftest import keep
from tests.service.pages.plans import long_pipeline
from tests.service.pages.running import running

SCREENS = {"wide": (1280, 900), "narrow": (390, 844)}


def main(folder: Path) -> None:
    """Write the pictures into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        running(Path(place)) as origin,
        browser() as chromium,
    ):
        for name, address in _addresses(origin, Path(place)).items():
            _shoot(chromium, folder, origin, name, address)
        with _under_way(Path(place)) as (toy, address):
            _shoot(chromium, folder, toy, "progress", address)


def _addresses(origin: str, place: Path) -> dict[str, str]:
    plans = {
        name: httpx2.post(
            f"{origin}/v1/plans", json=request, headers={"Prefer": "wait=60"}, timeout=120
        ).json()["id"]
        for name, request in {
            "small": sample("request"),
            "gpt-3": example_requests()["gpt-3-175b-a100x64-s16384"],
            "infeasible": sample("request") | {"cluster": {"memory_bytes": 9e9}},
        }.items()
    }
    store = Store(f"sqlite:///{place}/plans.db")
    deep = sample("request") | {"cluster": {"memory_bytes": 6e10}}
    answer = long_pipeline().plan.model_dump_json()
    plans["deep"] = keep(store, PlanRequest.model_validate(deep), answer)
    store.close()
    return {
        "first": "/",
        "first-filled": f"/?like={plans['small']}",
        "plan-small": f"/plans/{plans['small']}",
        "plan-gpt-3": f"/plans/{plans['gpt-3']}",
        "plan-deep": f"/plans/{plans['deep']}",
        "plan-deep-whole": f"/plans/{plans['deep']}?from=0",
        "infeasible": f"/plans/{plans['infeasible']}",
        "compare": f"/compare?ids={plans['gpt-3']},{plans['small']}",
        "guides": "/guides",
        "guide": "/guides/reading-a-plan",
        "unknown": "/plans/unknown",
        "api": "/docs",
    }


@contextmanager
def _under_way(place: Path) -> Iterator[tuple[str, str]]:
    """A service with a solve that lasts."""
    toy = place / "toy"
    toy.mkdir()
    with running(toy, TOY) as origin:
        asked = httpx2.post(f"{origin}/v1/plans", json=asking("sleep-300")).json()["id"]
        yield origin, f"/plans/{asked}"
        httpx2.delete(f"{origin}/v1/plans/{asked}")


def _shoot(chromium: Browser, folder: Path, origin: str, name: str, address: str) -> None:
    for screen, (width, height) in SCREENS.items():
        for scheme in ("light", "dark"):
            context = chromium.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(origin + address)
            page.wait_for_timeout(1500)
            page.screenshot(path=folder / f"{name}-{screen}-{scheme}.png", full_page=True)
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))
