"""Looking a mix up among all of a run against trying every mix."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from solver.partition import few_mixes as few_mixes_module
from solver.partition import free_menu
from solver.partition.few_mixes import few_mixes
from solver.partition.free_menu import FreeMenu
from solver.recompute.frontier import Frontier
from tests.solver.random_costs import random_costs

COUNTS = ((2, 0), (1, 1), (3, 0), (1, 2), (0, 2))


def random_frontier(chance: np.random.Generator, choices: int) -> Frontier:
    """Choices of whole bytes and seconds, so that some are beaten and some alike."""
    kept, seconds, rebuilt = chance.integers(1, 60, (3, choices)).astype(float)
    order = np.argsort(kept, kind="stable")
    return Frontier((), kept[order], seconds[order], rebuilt[order])


def every_mix(counts: tuple[int, ...], fronts: Sequence[Frontier]) -> list[tuple[float, float]]:
    """Seconds and bytes, the largest working memory included, of every mix."""
    each = [
        itertools.combinations_with_replacement(range(len(front.kept)), count)
        for front, count in zip(fronts, counts, strict=True)
    ]
    mixes = (
        [(fronts[kind], row) for kind, rows in enumerate(mix) for row in rows]
        for mix in itertools.product(*each)
    )
    return [
        (
            sum(front.seconds[row] for front, row in mix),
            sum(front.kept[row] for front, row in mix)
            + max(front.rebuilt[row] for front, row in mix),
        )
        for mix in mixes
    ]


@pytest.mark.parametrize("sifted", [10_000, 8])
@pytest.mark.parametrize("counts", COUNTS)
def test_every_budget_finds_the_best_of_all_mixes(
    counts: tuple[int, int], sifted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_mixes_module, "SIFTED", sifted)
    chance = np.random.default_rng(sum(counts) + sifted)
    fronts = [random_frontier(chance, 9), random_frontier(chance, 14)]
    values = np.unique(np.concatenate([front.rebuilt for front in fronts]))
    entry = [np.searchsorted(values, front.rebuilt) for front in fronts]
    found = few_mixes(counts, fronts, entry)
    assert found is not None
    every = every_mix(counts, fronts)
    for budget in chance.uniform(0.0, 160.0, 60):
        fits = found.kept + values[found.value] <= budget
        cheapest = min((took for took, held in every if held <= budget), default=np.inf)
        assert found.seconds[fits].min(initial=np.inf) == cheapest
        if fits.any():
            at = int(fits.argmax())
            parts = [(kind, row, count) for kind, row, count in found.parts(at)]
            assert found.seconds[at] == sum(n * fronts[k].seconds[row] for k, row, n in parts)
            assert [sum(n for k, _, n in parts if k == kind) for kind in (0, 1)] == list(counts)


@pytest.mark.parametrize("counts", [(4, 0), (2, 2), (5, 0), (1, 3)])
def test_two_halves_find_the_best_of_all_mixes(
    counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_menu, "LARGE", 0)
    monkeypatch.setattr(free_menu, "FEW", 1)
    monkeypatch.setattr(free_menu, "MANY", 1)
    chance = np.random.default_rng(sum(counts))
    fronts = (random_frontier(chance, 5), random_frontier(chance, 4))
    costs = random_costs(0, 2)
    blocks = tuple(replace(costs.blocks[0], working_bytes=0.0) for _ in fronts)
    every = every_mix(counts, fronts)
    for budget in chance.uniform(0.0, 220.0, 25):
        costs = replace(costs, blocks=blocks, capacity_bytes=budget, reserved_bytes=0.0)
        mix = FreeMenu(costs, fronts).cheapest(counts, 0.0, 1)
        cheapest = min((took for took, held in every if held <= budget), default=np.inf)
        assert (np.inf if mix is None else mix.seconds) == cheapest
        if mix is not None:
            assert mix.bound == mix.seconds
            assert mix.seconds == sum(n * fronts[k].seconds[row] for k, row, n in mix.parts)
            assert [sum(n for k, _, n in mix.parts if k == kind) for kind in (0, 1)] == list(counts)


def test_a_run_of_many_mixes_is_left_to_others() -> None:
    chance = np.random.default_rng(0)
    front = random_frontier(chance, 30)
    entry = [np.zeros(30, dtype=np.int64)]
    assert few_mixes((2,), [front], entry, most=29) is None
    assert few_mixes((4,), [front], entry) is None
