"""The even split, as frameworks cut a model unless told otherwise."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.partition.even import even_cuts

EMBEDDING, LAYER, HEAD = 0, 1, 2


def model(layers: int) -> tuple[int, ...]:
    return (EMBEDDING, *[LAYER] * layers, HEAD)


def layers_per_stage(layers: int, stages: int) -> list[int]:
    sequence = model(layers)
    return [sequence[start:stop].count(LAYER) for start, stop in even_cuts(sequence, stages)]


@pytest.mark.parametrize(("layers", "stages"), [(8, 4), (96, 8), (24, 1), (4, 4), (80, 16)])
def test_layers_that_divide_are_divided_equally(layers: int, stages: int) -> None:
    assert layers_per_stage(layers, stages) == [layers // stages] * stages


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (30, 4, [7, 8, 8, 7]),  # embedding and loss count as a layer each
        (126, 16, [7, *[8] * 14, 7]),
        (31, 4, [8, 8, 8, 7]),  # only the loss counts
    ],
)
def test_the_ends_count_as_layers_where_that_helps(
    layers: int, stages: int, expected: list[int]
) -> None:
    assert layers_per_stage(layers, stages) == expected


def test_layers_left_over_go_to_the_middle() -> None:
    assert layers_per_stage(29, 4) == [7, 8, 7, 7]
    assert layers_per_stage(9, 4) == [2, 3, 2, 2]


def test_embedding_stands_first_and_the_head_last() -> None:
    cuts = even_cuts(model(8), 4)
    assert cuts == ((0, 3), (3, 5), (5, 7), (7, 10))


def test_a_model_without_ends_is_divided_as_it_is() -> None:
    assert even_cuts((LAYER,) * 6, 3) == ((0, 2), (2, 4), (4, 6))


def test_kinds_that_alternate_are_layers_alike() -> None:
    dense, experts = 1, 2
    sequence = (EMBEDDING, *[dense, experts] * 4, 3)
    assert even_cuts(sequence, 4) == ((0, 3), (3, 5), (5, 7), (7, 10))


def test_with_fewer_layers_than_stages_every_block_counts() -> None:
    assert even_cuts(model(1), 3) == ((0, 1), (1, 2), (2, 3))


@given(
    sequence=st.lists(st.integers(0, 3), min_size=1, max_size=40).map(tuple),
    part=st.floats(0, 1),
)
def test_every_split_covers_the_sequence_and_leaves_no_stage_empty(
    sequence: tuple[int, ...], part: float
) -> None:
    stages = 1 + round(part * (len(sequence) - 1))
    cuts = even_cuts(sequence, stages)
    assert len(cuts) == stages
    assert cuts[0][0] == 0
    assert cuts[-1][1] == len(sequence)
    assert all(start < stop for start, stop in cuts)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(cuts))


@given(layers=st.integers(1, 200), stages=st.integers(1, 16))
def test_stages_differ_by_one_layer_at_most(layers: int, stages: int) -> None:
    if layers >= stages:
        counts = layers_per_stage(layers, stages)
        assert max(counts) - min(counts) <= 1


def test_a_kind_of_layer_that_occurs_once_is_a_layer_all_the_same() -> None:
    dense, experts, head = 1, 2, 3
    sequence = (EMBEDDING, dense, *[experts] * 7, head)
    cuts = even_cuts(sequence, 4, ends=frozenset({EMBEDDING, head}))
    assert cuts == ((0, 3), (3, 5), (5, 7), (7, 10))
