"""Placements: least crossing, proved, and kept together what must be together."""

from __future__ import annotations

import itertools
import math
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from solver.errors import BadRequest
from solver.placement.crossing import crossing_bytes, patterns
from solver.placement.decide import decided
from solver.placement.documents import FreeNode, PlacementAnswer, PlacementRequest
from solver.placement.filling import fillings
from solver.placement.grid import Grid
from solver.placement.least import least_costs, least_crossing, least_of_leafs
from solver.placement.place import place
from solver.placement.program import ENOUGH, Cut, solve
from solver.placement.whole_leafs import least_of_whole_leafs
from tests.pace import pace


def asked(leafs: list[str], layout: dict[str, int], **fields: Any) -> PlacementRequest:
    """A placement of Llama-3.1-405B on free nodes plugged into these leafs."""
    return PlacementRequest.model_validate(
        {
            "job": {
                "model": {"name": "llama-3.1-405b"},
                "cluster": {"device": "H100-SXM5-80GB", "nodes": 512, "devices_per_node": 8},
                "training": {"sequence_length": 8192, "global_batch_size": 2048},
                "layout": {"micro_batch_size": 1, **layout},
            },
            "nodes": [{"name": f"n{number:03}", "leaf": leaf} for number, leaf in enumerate(leafs)],
            **fields,
        }
    )


def three(tensor: int, pipeline: int, data: int) -> dict[str, int]:
    return {"tensor_parallel": tensor, "pipeline_parallel": pipeline, "data_parallel": data}


def least_crossing_of_all(grid: Grid, capacities: list[int]) -> float:
    """The least over every assignment of cells to leafs."""
    best = float("inf")
    for leafs in itertools.product(range(len(capacities)), repeat=grid.cells):
        if all(leafs.count(leaf) <= cells for leaf, cells in enumerate(capacities)):
            table = np.array(leafs).reshape(1, grid.rows, grid.stages)
            best = min(best, float(crossing_bytes(grid, table)[0]))
    return best


@given(
    shape=st.sampled_from([(2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (1, 6), (6, 1)]),
    capacities=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    weights=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
@settings(max_examples=40, deadline=None)
def test_the_crossing_is_the_least_of_every_assignment(
    shape: tuple[int, int], capacities: list[int], weights: tuple[int, int]
) -> None:
    rows, stages = shape
    grid = Grid(stages, rows, 1, float(weights[0]) if rows > 1 else 0.0, float(weights[1]))
    if sum(capacities) < grid.cells or weights == (0, 0):
        return
    request = _on_grid(grid, capacities)
    crossing, bound = request
    assert crossing == pytest.approx(least_crossing_of_all(grid, capacities))
    assert bound <= crossing * (1 + 1e-9)


def _on_grid(grid: Grid, capacities: list[int]) -> tuple[float, float]:
    """What the door does, for a grid of any weights."""
    leafs, bound = decided(grid, np.array(capacities), time.monotonic() + 600)
    used = np.bincount(leafs.ravel(), minlength=len(capacities))
    assert (used <= capacities).all()
    return float(crossing_bytes(grid, leafs[None])[0]), bound


def test_orderly_fillings_are_never_better_than_the_program() -> None:
    grid = Grid(stages=4, rows=6, unit=1, group_bytes=3.0, edge_bytes=1.0)
    best, leafs = patterns(grid, np.array([[8, 8, 8, 8]]))
    known = [tuple(int(x) for x in (leafs[0] == leaf).sum(axis=0)) for leaf in range(4)]
    solution = solve(grid, {8: 4}, [known], [], time.monotonic() + 600)
    assert solution.lower_bound <= solution.crossing <= best[0] + 1e-9


def test_half_a_thousand_nodes_on_32_leafs_within_a_hundredth() -> None:
    request = asked([f"leaf{i % 32}" for i in range(512)], three(8, 8, 64), time_limit_seconds=600)
    started = time.process_time()
    answer = place(request)
    assert time.process_time() - started < 2.0 * pace()
    assert answer.gap is not None
    assert answer.gap <= 0.01
    assert len({node.name for node in answer.nodes}) == 512


@pytest.mark.parametrize(
    ("layout", "seed", "nodes"),
    [
        ((8, 8, 64), 2, 512),
        ((8, 16, 32), 1, 512),
        ((8, 4, 128), 1, 600),
        ((8, 64, 8), 2, 512),
        ((8, 32, 16), 1, 512),
        ((4, 16, 64), 2, 512),
        ((4, 16, 64), 2, 600),
    ],
)
def test_leafs_of_any_size_are_filled_within_a_hundredth(
    layout: tuple[int, int, int], seed: int, nodes: int
) -> None:
    draw = random.Random(seed)
    weights = [draw.uniform(0.4, 1.0) for _ in range(32)]
    sizes = [int(nodes * weight / sum(weights)) for weight in weights]
    while sum(sizes) < nodes:
        sizes[draw.randrange(32)] += 1
    leafs = [f"leaf{leaf}" for leaf, size in enumerate(sizes) for _ in range(size)]
    answer = place(asked(leafs, three(*layout), time_limit_seconds=600))
    assert answer.gap is not None
    assert answer.gap <= 0.01


def test_a_placement_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine a hundred times as slow the clock runs a hundred times as fast."""
    sizes = (11, 9, 8, 7, 7, 6, 5, 3)
    leafs = [f"leaf{leaf}" for leaf, size in enumerate(sizes) for _ in range(size)]
    request, clock = asked(leafs, three(8, 6, 8), time_limit_seconds=600), time.monotonic
    expected = place(request).model_dump(exclude={"seconds"})
    assert expected["gap"] > ENOUGH  # every means was tried
    monkeypatch.setattr(time, "monotonic", lambda: 100 * clock())
    assert place(request).model_dump(exclude={"seconds"}) == expected


@given(
    shape=st.sampled_from([(2, 3), (3, 2), (2, 4), (4, 2), (1, 6)]),
    capacities=st.lists(st.integers(0, 6), min_size=2, max_size=3),
    weights=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
@settings(max_examples=40, deadline=None)
def test_no_assignment_crosses_less_than_what_leafs_cost_at_least(
    shape: tuple[int, int], capacities: list[int], weights: tuple[int, int]
) -> None:
    rows, stages = shape
    grid = Grid(stages, rows, 1, float(weights[0]) if rows > 1 else 0.0, float(weights[1]))
    if sum(capacities) < grid.cells:
        return
    costs = least_costs(grid, max(capacities))
    (bound,) = least_crossing(grid, costs, np.array([capacities]))
    closer = least_of_leafs(grid, costs, capacities)
    least = least_crossing_of_all(grid, capacities)
    assert bound - 1e-9 <= closer <= least + 1e-9
    if max(weights) and least:
        _, filled = patterns(grid, np.array([capacities]))
        begun = [tuple((filled[0] == leaf).sum(axis=0).tolist()) for leaf in range(len(capacities))]
        assert least_of_whole_leafs(grid, capacities, begun, math.inf) <= least + 1e-9


def test_fillings_give_every_cell_a_leaf_that_has_room() -> None:
    grid = Grid(stages=6, rows=5, unit=1, group_bytes=3.0, edge_bytes=1.0)
    for capacities in ([30], [7, 8, 15], [1] * 30, [4, 9, 11, 3, 8], [0, 29, 5]):
        for leafs in fillings(grid, capacities):
            assert leafs.shape == (5, 6)
            assert (np.bincount(leafs.ravel(), minlength=len(capacities)) <= capacities).all()


def test_cuts_hold_for_every_whole_number_of_leafs() -> None:
    grid = Grid(stages=3, rows=7, unit=1, group_bytes=3.0, edge_bytes=1.0)
    random = np.random.default_rng(2)
    for _ in range(50):
        table = np.stack([random.multinomial(7, [0.25] * 4) for _ in range(3)], axis=1)
        profiles = [tuple(int(x) for x in row) for row in table]
        for first, width, size in [(0, 1, 3), (1, 2, 4), (2, 1, 2), (0, 2, 5)]:
            cut = Cut(first, width, size)
            assert sum(map(cut.count, profiles)) >= cut.least(grid.rows)


def test_a_topology_says_the_nodes_where_none_are_named() -> None:
    nodes = [{"name": f"n{i}", "path": [f"leaf{i // 4}"]} for i in range(8)]
    request = asked(["x"], three(8, 2, 4))
    cluster = {
        "topology": {"nodes": nodes},
        "device": "H100-SXM5-80GB",
        "devices_per_node": 8,
    }
    job = request.job.model_dump(mode="json", exclude_unset=True) | {"cluster": cluster}
    answer = place(PlacementRequest.model_validate({"job": job}))
    assert {node.leaf for node in answer.nodes} == {"leaf0", "leaf1"}
    with pytest.raises(BadRequest) as raised:
        place(request.model_copy(update={"nodes": []}))
    assert raised.value.field == "nodes"


def test_a_job_that_fits_a_leaf_stays_on_it() -> None:
    answer = place(asked(["a"] * 3 + ["b"] * 8 + ["c"] * 3, three(8, 4, 2)))
    assert answer.crossing_bytes == 0
    assert {node.leaf for node in answer.nodes} == {"b"}
    assert answer.words is not None
    assert "--switches=1" in answer.words.slurm


def test_ranks_follow_the_nodes() -> None:
    answer = place(asked(["a"] * 4 + ["b"] * 4, three(8, 4, 2)))
    assert [node.first_rank for node in answer.nodes] == list(range(0, 64, 8))
    assert [node.stages for node in answer.nodes] == [[s] for s in range(4) for _ in range(2)]
    assert [node.replicas for node in answer.nodes] == [[0], [1]] * 4
    assert answer.words is not None
    assert answer.words.rank_file.splitlines()[9] == f"rank 9={answer.nodes[1].name} slot=1"


def test_tensor_groups_beyond_a_node_stay_in_a_domain() -> None:
    request = asked(["a"] * 12, three(16, 2, 2))
    nodes = [
        node.model_copy(update={"domain": f"d{number // 3}"})
        for number, node in enumerate(request.nodes)
    ]
    request = request.model_copy(update={"nodes": nodes})
    answer = place(request)
    assert answer.unit_nodes == 2
    domain = {node.name: node.domain for node in nodes}
    for first, second in zip(answer.nodes[::2], answer.nodes[1::2], strict=True):
        assert domain[first.name] == domain[second.name]


def test_too_few_nodes_is_said_and_not_an_error() -> None:
    answer = place(asked(["a"] * 7, three(8, 4, 2)))
    assert answer.status == "infeasible"
    assert answer.error is not None


def test_five_hundred_candidates_are_scored_together_and_fast() -> None:
    draw = random.Random(1)
    leafs = [f"leaf{i % 32}" for i in range(512)]
    names = [f"n{number:03}" for number in range(512)]
    several = [draw.sample(names, 256) for _ in range(500)]
    request = asked(leafs, three(8, 8, 32), candidates=several)
    from solver.placement.place import _grid, _scores

    _, grid, _ = _grid(request)
    seconds = []
    for _ in range(3):
        started = time.process_time()
        scores = _scores(request, grid)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.2 * pace()
    for score in scores:
        assert score.fits
        assert score.crossing_bytes is not None
        assert score.lower_bound_bytes is not None
        assert 0 < score.lower_bound_bytes <= score.crossing_bytes


def test_a_candidate_scores_what_placing_on_it_alone_reaches_at_most() -> None:
    leafs = ["a"] * 4 + ["b"] * 4 + ["c"] * 8
    names = [f"n{number:03}" for number in range(16)]
    answer = place(asked(leafs, three(8, 4, 2), candidates=[names[:8], names[8:], names[:5]]))
    spread, together, few = answer.scores
    assert together.crossing_bytes == 0
    alone = place(asked(leafs[:8], three(8, 4, 2)))
    assert spread.crossing_bytes is not None
    assert alone.crossing_bytes is not None
    assert spread.crossing_bytes >= alone.crossing_bytes > 0
    assert not few.fits


def test_an_open_layout_and_unknown_nodes_are_refused() -> None:
    with pytest.raises(BadRequest, match="whose layout is decided"):
        place(asked(["a"] * 8, {}))
    for name, hint in (("x", "Name nodes that stand in `nodes`."), ("n07", "Did you mean n007?")):
        with pytest.raises(BadRequest, match="not among the free nodes") as refusal:
            place(asked(["a"] * 8, three(8, 4, 2), candidates=[["n000"], ["n001", name]]))
        assert (refusal.value.field, refusal.value.hint) == ("candidates[1][1]", hint)


def test_nodes_named_twice_or_in_words_that_no_list_can_hold_are_refused() -> None:
    with pytest.raises(BadRequest, match="named twice") as refusal:
        place(asked(["a"] * 8, three(8, 4, 2), candidates=[["n000", "n000"]]))
    assert refusal.value.field == "candidates[0][1]"
    for label in ("a b", "a/b/c", "/leaf", "leaf-", "Example.com/leaf"):
        with pytest.raises(ValidationError):
            asked(["a"] * 8, three(8, 4, 2), leaf_label=label)
    for name in ("gpu 1", "gpu1,gpu2", "gpu1\nrank 0=other slot=0", "gpu1\n"):
        with pytest.raises(ValidationError):
            FreeNode(name=name)


def test_words_of_schedulers_say_the_same_slice() -> None:
    answer = place(asked(["a"] * 8 + ["b"] * 8, three(8, 4, 4)))
    assert isinstance(answer, PlacementAnswer)
    assert answer.words is not None
    size = answer.words.kueue["kueue.x-k8s.io/podset-slice-size"]
    assert f"--segment={size}" in answer.words.slurm
    policy = answer.words.volcano["partitionPolicy"]
    assert isinstance(policy, dict)
    assert policy["partitionSize"] == int(size)
    assert policy["partitionSize"] * policy["totalPartitions"] == 16
