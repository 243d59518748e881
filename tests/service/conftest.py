"""A service over the toy planner, on a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.service.toy_planner import SOLVE_LOG

TOY = "tests.service.toy_planner"
WAIT = {"Prefer": "wait=300"}
"""As long as only a hang takes."""


def patient(**fields: Any) -> Settings:
    """Settings whose limits nothing but a hang reaches, however busy the machine."""
    limits = {
        "max_wait_seconds": 300.0,
        "solve_grace_seconds": 600.0,
        "evaluation_seconds": 600.0,
        "calibration_seconds": 600.0,
        "heartbeat_timeout_seconds": 60.0,
    }
    return Settings(**{**limits, **fields})


def asking(model: str, **fields: Any) -> dict[str, Any]:
    """A well-formed request; the toy planner does what the model's name says."""
    cluster = {"device": "H100-SXM5-80GB", "nodes": 8, "devices_per_node": 8}
    return {"model": {"name": model}, "cluster": cluster, **fields}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return patient(
        database_url=f"sqlite:///{tmp_path}/plans.db",
        planner=TOY,
        solver_processes=2,
        heartbeat_seconds=0.1,
    )


@pytest.fixture
def solve_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that gets a line per solve."""
    log = tmp_path / "solves"
    log.touch()
    monkeypatch.setenv(SOLVE_LOG, str(log))
    return log


@pytest.fixture
def service(settings: Settings, solve_log: Path) -> Iterator[TestClient]:
    assert solve_log.exists()
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client
