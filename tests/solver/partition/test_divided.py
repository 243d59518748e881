"""How named software divides layers over stages that nobody told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.costs.pipeline import Block, PipelineCosts, States
from solver.partition.divided import divided
from solver.partition.even import even_split
from solver.workload.software import Division

HEAD_OVER_LAYER = 1.1


def model(layers: int, head: float = HEAD_OVER_LAYER) -> PipelineCosts:
    """A model whose head costs ``head`` layers."""
    layer = Block("layer", (), 1.0, States(1.0, 0.0, 0.0), 0.0)
    embedding = replace(layer, name="embedding", checkpointable=False)
    last = replace(embedding, name="head", states=States(head, 0.0, 0.0))
    return PipelineCosts(
        blocks=(embedding, layer, last),
        sequence=(0, *[1] * layers, 2),
        micro_batches=1,
        capacity_bytes=1.0,
    )


def layers_per_stage(layers: int, stages: int, division: Division) -> list[int]:
    costs = model(layers)
    cuts = divided(costs, stages, division)
    return [costs.sequence[start:stop].count(1) for start, stop in cuts]


@pytest.mark.parametrize(
    ("layers", "stages", "expected"), [(32, 5, [6, 6, 6, 7, 7]), (32, 4, [8, 8, 8, 8])]
)
def test_layers_left_over_go_to_the_last_stages(
    layers: int, stages: int, expected: list[int]
) -> None:
    assert layers_per_stage(layers, stages, Division.LATE) == expected


def test_a_stage_takes_the_layer_that_passes_its_share() -> None:
    """81.1 layers' worth on 16 stages are 5.07 each: the sixth layer passes it."""
    found = layers_per_stage(80, 16, Division.CROSSING)
    assert found[:3] == [6, 5, 5]
    assert found[-1] < 5


@given(
    layers=st.integers(1, 40), stages=st.integers(1, 12), division=st.sampled_from(list(Division))
)
def test_every_rule_covers_the_model_in_order_and_leaves_no_stage_empty(
    layers: int, stages: int, division: Division
) -> None:
    costs = model(layers)
    stages = min(stages, len(costs.sequence))
    cuts = divided(costs, stages, division)
    assert cuts[0][0] == 0
    assert cuts[-1][1] == len(costs.sequence)
    assert all(start < stop for start, stop in cuts)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(cuts))
    if division is Division.EVEN:
        assert cuts == even_split(costs, stages)
