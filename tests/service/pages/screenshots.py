"""Writes every page as a picture, light and dark, wide and narrow.

``python -m tests.service.pages.screenshots FOLDER [NAME ...]``; with names those pages only.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser

from service.jobs.study import Study
from service.schema_examples import example_requests, sample
from service.store import Store, calibrations
from solver.calibrations import Calibration
from solver.capacity.documents import CapacityRequest
from solver.contingencies.documents import ContingencyRequest
from solver.request import PlanRequest
from tests.service.conftest import TOY, asking
from tests.service.pages.browser import browser
from tests.service.pages.conftest import keep
from tests.service.pages.plans import long_pipeline
from tests.service.pages.running import running
from tests.solver.test_overlap import asked

_SPLIT_BACKWARD = {
    "model": {"name": "llama-3.1-8b"},
    "cluster": {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8},
    "training": {"sequence_length": 8192, "global_batch_size": 16},
    "layout": {
        "tensor_parallel": 2,
        "pipeline_parallel": 4,
        "micro_batch_size": 1,
        "schedule": "zb-h1",
    },
    "solver": {"time_limit_seconds": 10},
}
SCREENS = {"wide": (1280, 900), "narrow": (390, 844)}


def main(folder: Path, names: list[str]) -> None:
    """Write the pictures of these pages, or of all, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        running(Path(place)) as origin,
        browser() as chromium,
    ):
        for name, address in _addresses(origin, Path(place)).items():
            if not names or name in names:
                _shoot(chromium, folder, origin, name, address)
        with _empty(Path(place)) as toy:
            for name, address in _without_answers(toy):
                if not names or name in names:
                    _shoot(chromium, folder, toy, name, address)


def _addresses(origin: str, place: Path) -> dict[str, str]:
    plans = {
        name: httpx2.post(
            f"{origin}/v1/plans", json=request, headers={"Prefer": "wait=60"}, timeout=120
        ).json()["id"]
        for name, request in {
            "small": sample("request"),
            "gpt-3": example_requests()["gpt-3-175b-a100x64-s16384"],
            "infeasible": sample("request") | {"cluster": {"memory_bytes": 9e9}},
            "split-backward": _SPLIT_BACKWARD,
            "interleaved": _in_layout(virtual_stages=2),
            "hidden": asked("communication").model_dump(mode="json", exclude_unset=True),
            "experts": example_requests()["mixtral-8x22b-h100x128"],
            "offload": example_requests()["gpt-3-175b-a100x64-s16384"]
            | {"recompute": {"offload": "on"}},
        }.items()
    }
    store = Store(f"sqlite:///{place}/plans.db")
    deep = sample("request") | {"cluster": {"memory_bytes": 6e10}}
    answer = long_pipeline().plan.model_dump_json()
    plans["deep"] = keep(store, PlanRequest.model_validate(deep), answer)
    with store.writing() as session:
        calibrations.keep(session, Calibration.model_validate(sample("calibration")), 0.0)
    store.close()
    found = {
        "first": "/",
        "first-filled": f"/?like={plans['small']}",
        "plan-small": f"/plans/{plans['small']}",
        "plan-gpt-3": f"/plans/{plans['gpt-3']}",
        "plan-deep": f"/plans/{plans['deep']}",
        "plan-deep-whole": f"/plans/{plans['deep']}?from=0",
        "plan-split-backward": f"/plans/{plans['split-backward']}",
        "plan-interleaved": f"/plans/{plans['interleaved']}",
        "plan-hidden": f"/plans/{plans['hidden']}",
        "plan-experts": f"/plans/{plans['experts']}",
        "plan-offload": f"/plans/{plans['offload']}",
        "infeasible": f"/plans/{plans['infeasible']}",
        "ask-capacity-of-plan": f"/capacity?plan={plans['gpt-3']}",
        **_studies(store),
        "batches": "/batches",
        "batch": f"/batches/{_batch(origin)}",
        "compare": f"/compare?ids={plans['gpt-3']},{plans['small']}",
        "compare-four": "/compare?ids="
        + ",".join(plans[name] for name in ("gpt-3", "offload", "experts", "infeasible")),
        "calibrations": "/calibrations",
        "calibration": "/calibrations/ours",
        "guides": "/guides",
        "guide": "/guides/reading-a-plan",
        "unknown": "/plans/unknown",
        "nowhere": "/nowhere",
        "api": "/docs",
    }
    store.close()
    return found


def _in_layout(**layout: object) -> dict[str, Any]:
    """The sample in a layout with four stages."""
    return sample("request") | {
        "layout": {"tensor_parallel": 1, "pipeline_parallel": 4, "micro_batch_size": 1} | layout
    }


def _studies(store: Store) -> dict[str, str]:
    """The samples of what schedulers ask, and a job with a curve per kind of node."""
    curve = sample("capacity")
    slower = curve["curves"][0] | {"device": "A100-SXM4-80GB", "knee": None}
    slower["points"] = [
        point | {"samples_per_second": point["samples_per_second"] * 0.4, "feasible": True}
        for point in slower["points"]
    ]
    unfit = {"samples_per_second": None, "feasible": False, "useful": False}
    slower["points"][0] = slower["points"][0] | unfit
    slower["smallest_feasible"] = 2
    two = curve | {"curves": [curve["curves"][0], slower]}
    jobs = CapacityRequest.model_validate(sample("capacity_request"))
    failing = ContingencyRequest.model_validate(sample("contingency_request"))
    one_id = keep(store, Study(jobs.job, "capacity", jobs), json.dumps(curve))
    again = jobs.model_copy(update={"relative_gap": 0.02})
    two_id = keep(store, Study(again.job, "capacity", again), json.dumps(two))
    answer = json.dumps(sample("contingency"))
    failing_id = keep(store, Study(failing.job, "contingency", failing), answer)
    return {
        "ask-capacity": "/capacity",
        "ask-contingencies": "/contingencies",
        "capacity": f"/capacity/{one_id}",
        "capacity-two": f"/capacity/{two_id}",
        "contingencies": f"/contingencies/{failing_id}",
    }


def _batch(origin: str) -> str:
    """A batch of two cases, one of which is not as expected."""
    cases = [
        {"name": "as asked", "request": sample("request")},
        {
            "name": "faster",
            "request": sample("request"),
            "expectations": {"max_iteration_seconds": 0.1},
        },
    ]
    headers = {"Prefer": "wait=60"}
    body = {"name": "nightly", "cases": cases}
    asked_for = httpx2.post(f"{origin}/v1/batches", json=body, headers=headers, timeout=120)
    return str(asked_for.json()["id"])


@contextmanager
def _empty(place: Path) -> Iterator[str]:
    """A service that has planned nothing yet, and solves as long as a model's name says."""
    toy = place / "toy"
    toy.mkdir()
    with running(toy, TOY) as origin:
        yield origin


def _without_answers(origin: str) -> Iterator[tuple[str, str]]:
    """Pages before there are plans, then of one that failed, that is cancelled, that lasts."""
    yield "first-empty", "/"
    yield "compare-empty", "/compare"
    yield "batches-empty", "/batches"
    yield "capacity-empty", "/capacity"
    wait = {"Prefer": "wait=20"}
    plans = f"{origin}/v1/plans"
    crash = httpx2.post(plans, json=asking("bug"), headers=wait, timeout=60)
    yield "failed", f"/plans/{crash.json()['id']}"
    cancelled = httpx2.post(plans, json=asking("sleep-200")).json()["id"]
    httpx2.delete(f"{plans}/{cancelled}")
    yield "cancelled", f"/plans/{cancelled}"
    lasting = httpx2.post(plans, json=asking("sleep-300")).json()["id"]
    yield "progress", f"/plans/{lasting}"
    httpx2.delete(f"{plans}/{lasting}")


def _shoot(chromium: Browser, folder: Path, origin: str, name: str, address: str) -> None:
    for screen, (width, height) in SCREENS.items():
        for scheme in ("light", "dark"):
            context = chromium.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(origin + address)
            if name == "api":
                page.wait_for_selector(".opblock")  # the page draws itself from the document
            page.wait_for_timeout(800)
            page.screenshot(path=folder / f"{name}-{screen}-{scheme}.png", full_page=True)
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"), sys.argv[2:])
