"""Looking a mix up among all of a run against trying every mix."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solver.partition import few_mixes as module
from solver.partition.few_mixes import few_mixes
from solver.recompute.frontier import Frontier

COUNTS = ((2, 0), (1, 1), (3, 0), (1, 2), (0, 2))


def random_frontier(chance: np.random.Generator, choices: int) -> Frontier:
    """Choices of whole bytes and seconds, so that some are beaten and some alike."""
    kept, seconds, rebuilt = chance.integers(1, 60, (3, choices)).astype(float)
    order = np.argsort(kept, kind="stable")
    return Frontier((), kept[order], seconds[order], rebuilt[order])


@pytest.mark.parametrize("sifted", [10_000, 8])
@pytest.mark.parametrize("counts", COUNTS)
def test_every_budget_finds_the_best_of_all_mixes(
    counts: tuple[int, int], sifted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SIFTED", sifted)
    chance = np.random.default_rng(sum(counts) + sifted)
    fronts = [random_frontier(chance, 9), random_frontier(chance, 14)]
    values = np.unique(np.concatenate([front.rebuilt for front in fronts]))
    entry = [np.searchsorted(values, front.rebuilt) for front in fronts]
    found = few_mixes(counts, fronts, entry)
    assert found is not None
    each = [
        itertools.combinations_with_replacement(range(len(front.kept)), count)
        for front, count in zip(fronts, counts, strict=True)
    ]
    every = [
        [(kind, row) for kind, rows in enumerate(mix) for row in rows]
        for mix in itertools.product(*each)
    ]
    for budget in chance.uniform(0.0, 160.0, 60):
        fits = found.kept + values[found.value] <= budget
        cheapest = [
            sum(fronts[kind].seconds[row] for kind, row in mix)
            for mix in every
            if sum(fronts[kind].kept[row] for kind, row in mix)
            + max(fronts[kind].rebuilt[row] for kind, row in mix)
            <= budget
        ]
        assert found.seconds[fits].min(initial=np.inf) == min(cheapest, default=np.inf)
        if fits.any():
            at = int(fits.argmax())
            parts = [(kind, row, count) for kind, row, count in found.parts(at)]
            assert found.seconds[at] == sum(n * fronts[k].seconds[row] for k, row, n in parts)
            assert [sum(n for k, _, n in parts if k == kind) for kind in (0, 1)] == list(counts)


def test_a_run_of_many_mixes_is_left_to_others() -> None:
    chance = np.random.default_rng(0)
    front = random_frontier(chance, 30)
    entry = [np.zeros(30, dtype=np.int64)]
    assert few_mixes((2,), [front], entry, most=29) is None
    assert few_mixes((4,), [front], entry) is None
