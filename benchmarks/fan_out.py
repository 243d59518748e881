"""How a shared-out search falls with workers, and what the engine costs per job.

    python -m benchmarks.fan_out --database postgresql://USER@HOST/postgres [--workers 1 2]

Starts a server and workers of one solver process each, every time on a new database of that
PostgreSQL, which it drops again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from benchmarks.load import running
from service.client import Client

SEARCH: dict[str, Any] = {
    "model": {"name": "llama-3.1-8b"},
    "cluster": {"device": "A100-SXM4-40GB", "nodes": 2, "devices_per_node": 8},
    "training": {"global_batch_size": 64, "sequence_length": 8192},
    "recompute": {"overlap": "communication"},
}
"""1,207 layouts, of which some forty are solved."""

PROFILE = Path(__file__).parents[1] / "examples" / "profile-24-layers.json"
SMALL_JOBS = 100


@contextmanager
def deployment(database: str, workers: int) -> Iterator[str]:
    """The URL of a server with so many workers on a new database."""
    name = f"fan_out_{os.getpid()}_{workers}"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
    url = make_url(database).set(database=name).render_as_string(hide_password=False)
    settings = {
        "STAGECUT_WORKS": "false",
        "STAGECUT_SOLVER_PROCESSES": "1",
        "STAGECUT_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "service.cli", "worker"]
    environment = {**os.environ, "STAGECUT_DATABASE_URL": url, **settings}
    started: list[subprocess.Popen[bytes]] = []
    try:
        with running(url, **settings) as service:
            for _ in range(workers):
                worker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
                started.append(worker)
                assert worker.stdout is not None
                worker.stdout.readline()
            yield service.url
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[call-overload]


def _tiny(number: int) -> dict[str, Any]:
    """A profile whose plan takes a few milliseconds; every number is a request of its own."""
    request: dict[str, Any] = json.loads(PROFILE.read_text())
    request["training"] = {**request.get("training", {}), "global_batch_size": 16 + number}
    return request


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What more workers bring.")
    parser.add_argument("--database", required=True, help="a PostgreSQL that may create databases")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    print(f"{'workers':>8}{'one search':>14}{'small jobs':>16}{'of it engine':>16}")
    for workers in arguments.workers:
        with deployment(arguments.database, workers) as url, Client(url) as client:
            client.plan(_tiny(0))  # every process has imported the solver
            began = time.perf_counter()
            client.plan(SEARCH)
            search = time.perf_counter() - began
            began = time.perf_counter()
            several = [_tiny(number) for number in range(1, SMALL_JOBS + 1)]
            for request in several:
                client.submit(request)
            plans = [client.plan(request) for request in several]
            each = (time.perf_counter() - began) / SMALL_JOBS
            solved = sum(plan.solver.seconds for plan in plans if plan.solver) / SMALL_JOBS
        engine = each - solved / workers
        print(
            f"{workers:8}{search:12.1f} s{each * 1e3:13.1f} ms{engine * 1e3:13.1f} ms", flush=True
        )


if __name__ == "__main__":
    main()
