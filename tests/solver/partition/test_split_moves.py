"""Splits that one move makes, against every way to change the cuts that a move allows."""

from __future__ import annotations

import itertools
import random

import pytest

from solver.partition.split_moves import REACH, moved


@pytest.mark.parametrize("seed", range(20))
def test_a_move_changes_neighbouring_cuts_alike_and_leaves_every_stage_a_block(seed: int) -> None:
    rng = random.Random(seed)
    stages = rng.randint(1, 6)
    edges = [0, *itertools.accumulate(rng.randint(1, 3) for _ in range(stages))]
    expected = set()
    for first, stop in itertools.combinations(range(1, len(edges)), 2):
        for step in (-1, 1):
            ends = [edge + step * (first <= at < stop) for at, edge in enumerate(edges)]
            cuts = tuple(itertools.pairwise(ends))
            if stop - first <= REACH and all(a < b for a, b in cuts):
                expected.add(cuts)
    found = moved(tuple(itertools.pairwise(edges)))
    assert len(found) == len(expected)
    assert set(found) == expected
