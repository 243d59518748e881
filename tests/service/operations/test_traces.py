"""Spans reach the collector that the settings name, and those of a request are one trace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from service.client import Client
from tests.service.conftest import TOY, asking
from tests.service.postgresql.conftest import free_port, wait_until_up

ROOT = Path(__file__).parents[3]


class Collector(ThreadingHTTPServer):
    """Takes spans as an OTLP/HTTP collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.spans: list[Span] = []


class _Taker(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told = ExportTraceServiceRequest.FromString(body)
        for resource in told.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.shutdown()


def test_a_solve_is_part_of_the_trace_of_the_request_that_asked_for_it(
    collector: Collector, tmp_path: Path
) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "STAGECUT_DATABASE_URL": f"sqlite:///{tmp_path}/a.db",
        "STAGECUT_PLANNER": TOY,
        "STAGECUT_TRACES_URL": f"http://127.0.0.1:{collector.server_port}/v1/traces",
        # Longer than the test: only a server that sends the rest when it stops passes.
        "OTEL_BSP_SCHEDULE_DELAY": "600000",
    }
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until_up(f"http://127.0.0.1:{port}")
            with Client(f"http://127.0.0.1:{port}") as client:
                client.plan(asking("parts-2-quick"))
        finally:
            server.terminate()
            server.wait(60)
    solves = [span for span in collector.spans if span.name == "solve"]
    asked = [span for span in collector.spans if re.search("POST.*/v1/plans", span.name)]
    assert len(solves) == 3
    assert len(asked) == 1
    assert {span.trace_id for span in solves} == {asked[0].trace_id}
    ids = {span.span_id for span in solves}
    (whole,) = (span for span in solves if span.parent_span_id not in ids)
    assert {span.parent_span_id for span in solves if span is not whole} == {whole.span_id}
