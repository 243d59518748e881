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
    assert all("model_configs_h100.csv" in row["source"] for row in ROWS)
    assert len(ROWS) == 17


def test_the_ends_of_a_pipeline_hold_what_the_recipe_says() -> None:
    found = recommended(ROWS[0])
    layers = [sum(n for name, n in stage.blocks if "layer" in name) for stage in found.stages]
    assert layers == [3, *[4] * 14, 2]
    assert ("prediction", 1) in found.stages[-1].blocks
