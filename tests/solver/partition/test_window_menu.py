"""Partitions whose blocks recompute in windows, against every cut and every place."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import solver.partition.chains
from solver.costs.pipeline import PipelineCosts
from solver.partition.outcome import Partition
from solver.partition.policy_menu import policy_menu
from solver.partition.solve import PartitionProblem
from solver.request import Overlap, Recompute
from solver.schedules import Schedule, recomputing_ahead
from tests.solver import exhaustive_overlap
from tests.solver.overlap_samples import pipeline_with_windows


def plan_of(costs: PipelineCosts, schedule: Schedule, overlap: Overlap) -> Partition | None:
    """The plan found, or None if nothing fits."""
    menu = policy_menu(costs, Recompute(overlap=overlap))
    if overlap in (Overlap.STALLS, Overlap.ALL):
        schedule = recomputing_ahead(schedule)
    found = PartitionProblem(costs, menu, schedule).solve()
    return found if isinstance(found, Partition) else None


def solved(seed: int, overlap: Overlap) -> tuple[Partition | None, float]:
    """The plan found, and the least makespan there is."""
    costs, schedule = pipeline_with_windows(seed)
    slow = exhaustive_overlap.optimum(costs, schedule.name, schedule.devices, overlap.value)
    return plan_of(costs, schedule, overlap), slow


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


@pytest.mark.parametrize("overlap", [Overlap.STALLS, Overlap.ALL])
@pytest.mark.parametrize("seed", range(217, 245))
def test_recompute_ahead_equals_every_timing_of_every_stage(seed: int, overlap: Overlap) -> None:
    found, slow = solved(seed, overlap)
    assert (found.makespan if found else math.inf) == pytest.approx(slow)
    if found:
        assert found.lower_bound == pytest.approx(slow)


@pytest.mark.parametrize("seed", range(300, 330))
def test_hiding_never_hurts_and_nothing_beats_free_memory(seed: int) -> None:
    costs, schedule = pipeline_with_windows(seed, most_blocks=8, most_stages=4)
    found = {overlap: plan_of(costs, schedule, overlap) for overlap in Overlap}
    if found[Overlap.OFF] is None:
        return
    free = plan_of(replace(costs, capacity_bytes=1e12), schedule, Overlap.OFF)
    assert free is not None
    makespans = {overlap: plan.makespan for overlap, plan in found.items() if plan is not None}
    for makespan in makespans.values():
        assert free.makespan <= makespan * (1 + 1e-9)
        assert makespan <= makespans[Overlap.OFF] * (1 + 1e-9)
    for one in (Overlap.COMMUNICATION, Overlap.STALLS):
        assert makespans[Overlap.ALL] <= makespans[one] * (1 + 1e-9)
