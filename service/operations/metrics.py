"""What is measured, for Prometheus. Counts are of this process; what waits is of the database."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest, start_http_server

from service.store import Store, jobs, workers

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

HTTP_REQUESTS = Counter(
    "stagecut_http_requests", "Requests answered.", ["method", "route", "status"], registry=REGISTRY
)
HTTP_SECONDS = Histogram(
    "stagecut_http_request_seconds",
    "Time to answer.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 60),
    registry=REGISTRY,
)
ANSWERS = Counter(
    "stagecut_answers",
    "Requests for plans: answered from the `store`, `joined` a solve under way, or `accepted`.",
    ["source"],
    registry=REGISTRY,
)
SOLVE_SECONDS = Histogram(
    "stagecut_solve_seconds",
    "Time of a solve, by how it ended.",
    ["status"],
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000),
    registry=REGISTRY,
)
GAP = Histogram(
    "stagecut_gap_at_finish",
    "Gap between plan and proved bound when the solve ended.",
    buckets=(0.0, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    registry=REGISTRY,
)
_JOBS = Gauge("stagecut_jobs", "Accepted jobs, in the database.", ["status"], registry=REGISTRY)
_OLDEST = Gauge(
    "stagecut_oldest_queued_job_seconds", "Age of the job that waits longest.", registry=REGISTRY
)
_WORKERS = Gauge("stagecut_workers", "Processes that solve, on the database.", registry=REGISTRY)


def page(store: Store) -> bytes:
    """All measurements, as Prometheus reads them."""
    now = time.time()
    with store.reading() as session:
        counts, oldest = jobs.in_flight_counts(session)
        alive = workers.count_alive(session, now)
    for status in jobs.IN_FLIGHT:
        _JOBS.labels(status).set(counts.get(status, 0))
    _OLDEST.set(0.0 if oldest is None else max(0.0, now - oldest))
    _WORKERS.set(alive)
    return generate_latest(REGISTRY)


def serve(port: int) -> None:
    """Answer Prometheus on a port of its own: for workers, which serve nothing else."""
    start_http_server(port, registry=REGISTRY)
