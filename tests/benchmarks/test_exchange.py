"""Runs with the exchange of experts' tokens plain and overlapped come out as measured."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.exchange import compared, records

RUNS = records()


@pytest.mark.parametrize("record", RUNS, ids=lambda record: record["id"])
def test_time_and_memory_are_near_what_was_measured(record: dict[str, Any]) -> None:
    found = compared(record)
    assert 0.92 < found.time < 1.12
    assert found.memory is None or 0.95 < found.memory < 1.02


def test_every_run_names_its_source() -> None:
    assert all("pull request" in record["source"] for record in RUNS)
