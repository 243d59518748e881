"""Whatever a stranger sends, the service keeps to its own description of itself."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, settings
from schemathesis import Case, HookContext
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import positive_data_acceptance

from service.app import create_app
from service.settings import Settings
from tests.service.conftest import patient

PLANNER = "tests.service.contract_planner"
_PATIENCE_SECONDS = 300
"""Starting another solver process takes long where the machine is busy."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("contract")
    app = create_app(
        patient(database_url=f"sqlite:///{folder}/a.db", planner=PLANNER, max_wait_seconds=1)
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join()


SCHEMA = schemathesis.openapi.from_dict(create_app(Settings(database_url="sqlite://")).openapi())

_FIRST, _EVERY = 40, 17
"""Of the bodies that vary the fields of a job one by one, doors other than plans' try the first and
then every so many; what reads a job is the same code behind each.
"""

_met: Counter[str] = Counter()


@SCHEMA.hook
def filter_case(_: HookContext, case: Case[Any]) -> bool:
    if case.meta is None or case.meta.phase.name != TestPhase.COVERAGE:
        return True
    label = case.operation.label
    _met[label] += 1
    return label == "POST /v1/plans" or _met[label] <= _FIRST or _met[label] % _EVERY == 0


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
def test_every_operation_does_what_its_description_says(case: Case[Any], url: str) -> None:
    # A layout that breaks a rule of divisibility fits the schema; refusing it is right.
    case.call_and_validate(
        base_url=url, excluded_checks=[positive_data_acceptance], timeout=_PATIENCE_SECONDS
    )
