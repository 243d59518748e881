"""A service that requires keys, and keys for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.access import keys
from service.access.caller import Scope
from service.app import create_app
from service.settings import Settings
from service.store import Store

FIRST_KEY = "the-first-key-of-all-which-is-long-enough"
Make = Callable[..., dict[str, str]]


@pytest.fixture
def closed(settings: Settings) -> Settings:
    return Settings(**settings.model_dump() | {"access": "required", "bootstrap_key": FIRST_KEY})


@pytest.fixture
def service(closed: Settings, solve_log: Path) -> Iterator[TestClient]:
    assert solve_log.exists()
    app = create_app(closed)
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield client


@pytest.fixture
def make(service: TestClient, closed: Settings) -> Make:
    """Makes a key, as the header that shows it."""
    assert service
    store = Store(closed.database_url)

    def made(tenant: str = "one", scope: Scope = Scope.PLAN, **limits: Any) -> dict[str, str]:
        return bearer(keys.create(store, "test", tenant, scope, **limits)[1])

    return made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
