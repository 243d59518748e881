"""All splits of a few more blocks than stages."""

from __future__ import annotations

import itertools

import numpy as np

from solver.partition.few_splits import FewSplits, splits_count


def test_every_split_is_there_once() -> None:
    splits = FewSplits((0, 1, 0, 1, 2, 2), 4)
    every = {splits.cuts(at) for at in range(len(splits))}
    edges = ((0, *cuts, 6) for cuts in itertools.combinations(range(1, 6), 3))
    assert every == {tuple(itertools.pairwise(ends)) for ends in edges}
    assert len(splits) == splits_count(6, 4)


def test_splits_at_spots_have_their_longer_stages_there() -> None:
    splits, spots = FewSplits((0,) * 8, 6), np.array([1, 4])
    lengths = [[b - a for a, b in splits.cuts(int(at))] for at in splits.at_spots(spots, 3)]
    assert sorted(lengths) == [[1, 1, 1, 1, 3, 1], [1, 2, 1, 1, 2, 1], [1, 3, 1, 1, 1, 1]]
    assert not len(splits.at_spots(spots, 2))
