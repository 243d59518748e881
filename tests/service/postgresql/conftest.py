"""A cluster for all tests here, a database and processes for each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from service.client import Client
from tests.service.conftest import TOY
from tests.service.postgresql.cluster import Cluster, binaries
from tests.service.toy_planner import SOLVE_LOG

ROOT = Path(__file__).parents[3]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(missing)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    cluster.start()
    yield cluster
    cluster.remove()


@pytest.fixture
def database_url(cluster: Cluster) -> str:
    return cluster.new_database()


class Deployment:
    """Servers and workers on one database, each a process of its own."""

    def __init__(self, database_url: str, solve_log: Path, **settings: str) -> None:
        self.solve_log = solve_log
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "STAGECUT_DATABASE_URL": database_url,
            "STAGECUT_PLANNER": TOY,
            "STAGECUT_SOLVER_PROCESSES": "2",
            "STAGECUT_MIGRATE_AT_START": "true",
            "STAGECUT_SOLVE_GRACE_SECONDS": "600",
            SOLVE_LOG: str(solve_log),
            **settings,
        }

    def set(self, settings: dict[str, str]) -> None:
        """Settings of the processes that are started from now on."""
        self._environment |= settings

    def server(self, *, works: bool = False) -> tuple[int, str]:
        """Start a server and wait until it is up; its process id and URL."""
        process = self._start("serve", "--port", "0", STAGECUT_WORKS=str(works))
        assert process.stdout is not None
        for line in process.stdout:
            match line.decode().split():
                case ["Pages", url]:
                    return process.pid, url
        raise AssertionError(f"the server ended with {process.wait()}")

    def worker(self) -> int:
        """Start a worker and wait until it works; its process id."""
        process = self._start("worker")
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Working")
        return process.pid

    def kill(self, process_id: int) -> None:
        """kill -9."""
        for process in self._processes:
            if process.pid == process_id:
                process.kill()
                process.wait()

    def terminate(self, process_id: int) -> None:
        """Stop one as an operator does."""
        os.kill(process_id, signal.SIGTERM)

    def stop(self) -> None:
        """Stop everything as an operator does."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def solves(self) -> list[str]:
        """What was begun to be solved, in order."""
        return self.solve_log.read_text().splitlines()

    def who_solves(self) -> list[int]:
        """The process that each solve was begun by."""
        lines = Path(f"{self.solve_log}.workers").read_text().splitlines()
        return [int(line.split()[0]) for line in lines]

    def _start(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", *command],
            cwd=ROOT,
            env={**self._environment, **settings},
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        return process


@pytest.fixture
def deployment(database_url: str, solve_log: Path) -> Iterator[Deployment]:
    deployment = Deployment(database_url, solve_log)
    yield deployment
    deployment.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_up(url: str, seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    with Client(url, timeout_seconds=5.0) as client:
        while True:
            try:
                client.health()
            except httpx2.TransportError:
                assert time.monotonic() < until, f"{url} did not come up"
                time.sleep(0.1)
            else:
                return
