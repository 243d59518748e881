"""Every recommended plan is a legal layout that the solver can judge."""

from __future__ import annotations

import csv

import pytest

from benchmarks.expert_plans import PLANS, recommended

ROWS = list(csv.DictReader(PLANS.read_text().splitlines()))


@pytest.mark.parametrize("row", ROWS[2:12], ids=lambda row: f"{row['model']}-{row['precision']}")
def test_a_recommended_plan_is_legal_and_takes_time(row: dict[str, str]) -> None:
    found = recommended(row)
    assert found.iteration_seconds > 0
    assert found.layout.tensor_parallel == int(row["tensor_parallel"])


def test_every_row_names_its_source() -> None:
    assert all(row["source"].endswith(".csv") for row in ROWS)
    assert len(ROWS) == 17
