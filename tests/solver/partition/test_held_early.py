"""Choices of blocks that hold for each other, against every choice of every block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from solver.partition.alone_cells import AloneCells
from solver.partition.early_mixes import EarlyMixes
from solver.partition.held_early import HeldEarly
from solver.partition.succession import Held, Succession

LINKS = {
    "first": (0, 1, 1, 2),
    "all alike": (1, 1, 1, 2),
    "alternating": (1, 0, 1, 2),
    "one": (2,),
}
"""Orders of links; blocks of the last one hold nothing early, as nobody follows them."""

PAIRS = [(0, 1), (1, 0), (1, 1), (1, 2)]
IN_FLIGHT = 2


def some_held(rng: np.random.Generator, early: bool, choices: int = 5) -> Held:
    kept, seconds, needs, held = rng.integers(0, 12, (4, choices)).astype(float)
    held = np.sort(held) * (rng.random(choices) < 0.7) if early else np.zeros(choices)
    order = np.argsort(held, kind="stable")
    return Held(kept, seconds, needs, held[order], np.arange(choices))


def every_way(held: Sequence[Held], links: Sequence[int]) -> list[tuple[float, float, float]]:
    """Kept bytes, seconds and working memory of every choice of every block."""
    found = []
    for choices in itertools.product(*(range(len(held[link].kept)) for link in links)):
        blocks = [held[link] for link in links]
        chosen = list(zip(blocks, choices, strict=True))
        early = [0.0, *(float(one.early[at]) for one, at in chosen)]
        needs = [float(one.needs[at]) for one, at in chosen]
        kept = sum(float(one.kept[at]) for one, at in chosen)
        seconds = sum(float(one.seconds[at]) for one, at in chosen)
        found.append((kept, seconds, max(a + b for a, b in zip(early, needs, strict=False))))
    return found


def asked(seed: int) -> tuple[list[Held], Succession]:
    rng = np.random.default_rng(seed)
    held = [some_held(rng, early=link < 2) for link in range(3)]
    return held, Succession(held, PAIRS)


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("seed", range(3))
def test_a_path_is_the_cheapest_way_within_every_working_memory(
    links: tuple[int, ...], seed: int
) -> None:
    held, succession = asked(seed)
    ways = every_way(held, links)
    values = np.arange(0, len(succession.values), 3)
    for price in (0.0, 0.3, 2.0):
        paths = succession.cheapest(links, values, np.full(len(values), price))
        for row, place in enumerate(values.tolist()):
            most = succession.values[place]
            fit = [seconds + price * kept for kept, seconds, needs in ways if needs <= most]
            assert paths.total[row] == pytest.approx(min(fit, default=math.inf))
            if fit:
                assert paths.working[row] <= most


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("seed", range(10, 16))
@pytest.mark.parametrize("budget", [40.0, 60.0, 90.0])
def test_bounds_are_below_every_way_and_mixes_are_ways(
    links: tuple[int, ...], seed: int, budget: float
) -> None:
    held, succession = asked(seed)
    ways = every_way(held, links)
    fit = [s for kept, s, needs in ways if IN_FLIGHT * kept + needs <= budget]
    least = min(fit, default=math.inf)
    prices = np.array([0.2, 0.5, 1.0, 3.0])
    counts = np.array([[links.count(link) for link in range(3)]])
    cells = AloneCells(held, [0.0] * 3, IN_FLIGHT, prices)
    assert cells.bounds(counts, np.array([budget]))[0] <= least + 1e-9
    bound, *_ = HeldEarly(succession, links, budget, IN_FLIGHT, 1.0).bound(math.inf)
    assert bound <= least + 1e-9
    found = EarlyMixes(held, succession, IN_FLIGHT, prices).cheapest(links, budget)
    if found is not None:
        seconds, choices, _ = found
        path = succession.paths(links, np.array([choices]), np.zeros(1))
        assert IN_FLIGHT * path.kept.sum() + path.working[0] <= budget + 1e-9
        assert seconds == pytest.approx(path.seconds.sum())
        assert least <= seconds + 1e-9
