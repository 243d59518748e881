"""How much the service bears: throughput, latency, single flight, a long queue, memory.

    python -m benchmarks.load [--database URL] [--minutes N]

Starts the service on a database of its own (SQLite unless told) and measures it over loopback from
this process. The load generator takes a share of the machine; what it prints is a lower bound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.client import Client
from service.jobs.intake import Asked, plan_row
from service.schema_examples import sample
from service.settings import Settings
from service.store import Store, jobs, plans
from solver.request import PlanRequest

_SECONDS = 5.0
_QUEUED_JOBS = 10_000
_IDENTICAL_REQUESTS = 1000


@dataclass(frozen=True)
class Rate:
    """What one measurement gave."""

    per_second: float
    median_seconds: float
    worst_percent_seconds: float
    service_seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.per_second:8,.0f} requests/s   median {self.median_seconds * 1e3:6.2f} ms"
            f"   99% {self.worst_percent_seconds * 1e3:6.2f} ms"
            f"   {self.service_seconds * 1e3:.2f} ms of processor each"
        )


class Service:
    """A running service: where it is, and what it takes."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def resident_mebibytes(self) -> float:
        """Memory of the service process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def processor_seconds(self) -> float:
        """Processor time that the service process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def children_mebibytes(self) -> list[float]:
        """Memory of each solver process."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = []
        for child in path.read_text().split():
            status = Path(f"/proc/{child}/status").read_text()
            found.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024)
        return found


@contextmanager
def running(database_url: str, **settings: str) -> Iterator[Service]:
    """The service in a process of its own, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "STAGECUT_DATABASE_URL": database_url,
        "STAGECUT_MIGRATE_AT_START": "true",
        **settings,
    }
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)
        service = Service(process, port)
        try:
            if not _is_up(service):
                log.seek(0)
                raise SystemExit(f"the service did not come up:\n{log.read().decode()}")
            yield service
        finally:
            process.terminate()
            process.wait(20)


def _is_up(service: Service) -> bool:
    """Wait until the service answers; false when it ends before or takes a minute."""
    with Client(service.url, timeout_seconds=5.0) as client:
        for _ in range(600):
            if service.process.poll() is not None:
                return False
            try:
                client.health()
            except OSError:
                time.sleep(0.1)
            except Exception as error:
                if not type(error).__module__.startswith("httpx2"):
                    raise
                time.sleep(0.1)
            else:
                return True
    return False


def http(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: load", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def measure(
    service: Service, request: bytes, connections: int, seconds: float = _SECONDS
) -> Rate:
    """Send ``request`` over so many connections, one after the other on each."""
    latencies: list[float] = []
    until = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        while (started := time.perf_counter()) < until:
            writer.write(request)
            status, _ = await _response(reader)
            assert status == 200, status
            latencies.append(time.perf_counter() - started)
        writer.close()

    started, used = time.perf_counter(), service.processor_seconds()
    await asyncio.gather(*(one() for _ in range(connections)))
    taken = time.perf_counter() - started
    latencies.sort()
    return Rate(
        len(latencies) / taken,
        statistics.median(latencies),
        latencies[int(len(latencies) * 0.99)],
        (service.processor_seconds() - used) / len(latencies),
    )


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


async def identical(port: int, request: bytes, count: int) -> tuple[float, set[bytes]]:
    """Send ``request`` over ``count`` connections at once; seconds, and the different answers."""

    async def one() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        status, body = await _response(reader)
        assert status == 200, (status, body)
        writer.close()
        return body

    started = time.perf_counter()
    answers = await asyncio.gather(*(one() for _ in range(count)))
    return time.perf_counter() - started, set(answers)


def queue_up(database_url: str, count: int) -> None:
    """Write so many accepted jobs that nobody works on."""
    store = Store(Settings(database_url=database_url).database_url)
    with store.writing() as session:
        for number in range(count):
            asked = Asked(PlanRequest.model_validate(variant(1_000_000 + number)))
            now = time.time()
            plans.add(session, plan_row(asked, now))
            jobs.add(session, asked.plan_id, priority=0, deadline_at=None, now=now)
    store.close()


def variant(number: int) -> dict[str, Any]:
    """A request that nobody has made before."""
    request: dict[str, Any] = json.loads(json.dumps(sample("request")))
    request["training"]["global_batch_size"] = 8 + number
    return request


def solves(database_url: str, plan_id: str) -> int:
    """Jobs that there were for the plan."""
    store = Store(Settings(database_url=database_url).database_url)
    with store.reading() as session:
        count = jobs.count_of(session, plan_id)
    store.close()
    return count


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measures the service under load.")
    parser.add_argument("--database", help="SQLAlchemy URL; SQLite in a new folder if absent.")
    parser.add_argument("--minutes", type=float, default=0.0, help="Watch memory for so long.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(arguments.database or f"sqlite:///{folder}/load.db", arguments.minutes)


def run(database_url: str, minutes: float) -> None:
    """All measurements on one database."""
    print(f"Database: {database_url.partition(':')[0]}, {os.cpu_count()} cores, loopback")
    body = json.dumps(variant(0)).encode()
    json_body = {"Content_Type": "application/json", "Prefer": "wait=60"}
    post = http("POST", "/v1/plans", body, **json_body)
    with running(database_url) as service:
        print(f"Idle: service {service.resident_mebibytes():.0f} MiB")
        with Client(service.url) as client:
            plan_id = client.plan(variant(0)).id
        get = http("GET", f"/v1/plans/{plan_id}")
        measured = {
            "by id, 4 connections": (get, 4),
            "by id, 32 connections": (get, 32),
            "same request, 4 connections": (post, 4),
            "same request, 32 connections": (post, 32),
        }
        for name, (request, connections) in measured.items():
            print(f"{name:30}{asyncio.run(measure(service, request, connections))}")
        fresh = http("POST", "/v1/plans", json.dumps(variant(1)).encode(), **json_body)
        taken, answers = asyncio.run(identical(service.port, fresh, _IDENTICAL_REQUESTS))
        (answer,) = answers
        count = solves(database_url, json.loads(answer)["id"])
        print(f"{_IDENTICAL_REQUESTS} identical new requests: {count} solve, {taken:.2f} s")
        children = ", ".join(f"{size:.0f}" for size in service.children_mebibytes())
        print(f"After: service {service.resident_mebibytes():.0f} MiB, solvers {children} MiB")
        if minutes:
            watch(service, get, minutes)
    long_queue(database_url, get)


def long_queue(database_url: str, get: bytes) -> None:
    """Reads with and without a long queue of jobs that nobody works on."""
    with running(database_url, STAGECUT_WORKS="false") as service:
        before = asyncio.run(measure(service, get, 32))
        queue_up(database_url, _QUEUED_JOBS)
        after = asyncio.run(measure(service, get, 32))
    change = after.per_second / before.per_second - 1
    print(f"{_QUEUED_JOBS} queued jobs: reads {change:+.1%} ({after.per_second:,.0f} requests/s)")


def watch(service: Service, request: bytes, minutes: float) -> None:
    """Memory over a long run of reads and new requests."""
    until = time.monotonic() + minutes * 60
    number = 100
    while time.monotonic() < until:
        asyncio.run(measure(service, request, 8, seconds=20.0))
        with Client(service.url) as client:
            for _ in range(20):
                number += 1
                client.plan(variant(number))
        children = ", ".join(f"{size:.0f}" for size in service.children_mebibytes())
        print(f"  service {service.resident_mebibytes():.0f} MiB, solvers {children} MiB")


if __name__ == "__main__":
    main()
