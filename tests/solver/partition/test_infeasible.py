"""What is said when nothing fits: the right stage and the right bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Infeasible, Partition
from solver.partition.solve import PartitionProblem
from solver.schedules import OneForwardOneBackward, Schedule
from tests.solver.partition import samples
from tests.solver.partition.samples import free_menu, least_memory

SEEDS = range(40)


def pipeline(seed: int) -> tuple[PipelineCosts, Schedule]:
    """A random pipeline that needs some memory whatever it keeps."""
    costs, schedule = samples.pipeline(seed)
    return replace(costs, reserved_bytes=1.0), schedule


@pytest.mark.parametrize("seed", SEEDS)
def test_the_missing_bytes_are_those_of_the_best_split_under_full_recompute(seed: int) -> None:
    costs, schedule = pipeline(seed)
    least, fullest = least_memory(costs, schedule)
    tight = replace(costs, capacity_bytes=0.6 * least)
    found = PartitionProblem(tight, free_menu(tight), schedule).solve()
    assert isinstance(found, Infeasible)
    assert found.needed_bytes == pytest.approx(least)
    assert found.missing_bytes == pytest.approx(least - tight.capacity_bytes)
    assert found.stage in fullest


@pytest.mark.parametrize("seed", SEEDS)
def test_with_exactly_the_needed_bytes_there_is_a_plan(seed: int) -> None:
    costs, schedule = pipeline(seed)
    least, _ = least_memory(costs, schedule)
    enough = replace(costs, capacity_bytes=least * (1 + 1e-9))
    found = PartitionProblem(enough, free_menu(enough), schedule).solve()
    assert isinstance(found, Partition)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_layout_that_cannot_fit_is_bounded_by_infinity(seed: int) -> None:
    costs, schedule = pipeline(seed)
    least, _ = least_memory(costs, schedule)
    for part, fits in ((0.99, False), (1.01, True)):
        limited = replace(costs, capacity_bytes=part * least)
        bound = PartitionProblem(limited, free_menu(limited), schedule).bound
        assert (bound < float("inf")) == fits


def test_more_stages_than_blocks_are_refused() -> None:
    costs, _ = pipeline(0)
    stages = len(costs.sequence) + 1
    with pytest.raises(ValueError, match="fewer blocks than stages"):
        PartitionProblem(costs, free_menu(costs), OneForwardOneBackward(stages, 2))


def test_where_no_split_is_admitted_that_is_said_and_no_bytes_are_missing() -> None:
    costs, schedule = pipeline(3)
    found = PartitionProblem(
        costs, free_menu(costs), schedule, lambda counts: np.zeros(len(counts), dtype=bool)
    ).solve()
    assert isinstance(found, Infeasible)
    assert not found.admitted
