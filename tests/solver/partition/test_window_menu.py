"""Partitions whose blocks recompute in windows, against every cut and every place."""

from __future__ import annotations

import math

import pytest

import solver.partition.chains
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.request import Overlap, Recompute
from tests.solver import exhaustive_overlap
from tests.solver.overlap_samples import pipeline_with_windows


def solved(seed: int, overlap: Overlap) -> tuple[Partition | None, float]:
    """The plan found, and the least makespan there is."""
    costs, schedule = pipeline_with_windows(seed)
    menu = policy_menu(costs, Recompute(overlap=overlap))
    found = PartitionProblem(costs, menu, schedule).solve()
    slow = exhaustive_overlap.optimum(costs, schedule.name, schedule.devices, overlap.value)
    return found if isinstance(found, Partition) else None, slow


@pytest.mark.parametrize("seed", range(100))
def test_windows_equal_every_tensor_in_every_place(seed: int) -> None:
    found, slow = solved(seed, Overlap.COMMUNICATION)
    assert (found.makespan if found else math.inf) == pytest.approx(slow)
    if found:
        assert found.lower_bound == pytest.approx(slow)


@pytest.mark.parametrize("seed", range(103, 150))
def test_windows_given_away_whole_keep_an_honest_bound(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What large stages do: perhaps not the best plan, but bounds that hold."""
    monkeypatch.setattr(solver.partition.chains, "MOST_SUMS", 0)
    found, slow = solved(seed, Overlap.COMMUNICATION)
    assert (found is None) == math.isinf(slow)
    if found:
        assert found.lower_bound <= slow * (1 + 1e-9) <= found.makespan * (1 + 2e-9)
