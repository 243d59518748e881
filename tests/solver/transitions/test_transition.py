"""Transitions: least bytes, nothing invented, and the size of a checkpoint."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from solver.errors import BadRequest
from solver.transitions.documents import TransitionRequest
from solver.transitions.pairs import Pairs
from solver.transitions.state import both, common, union, without
from solver.transitions.transition import _Held, layers_of, situation, transition

JOB: dict[str, Any] = {
    "model": {"name": "llama-3.2-1b"},
    "cluster": {"device": "H100-SXM5-80GB", "nodes": 4, "devices_per_node": 2},
    "training": {"sequence_length": 4096, "global_batch_size": 8},
}
FACTS = situation(TransitionRequest.model_validate({
    "job": JOB,
    "before": {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "nodes": ["a"]},
    "after": {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "nodes": ["a"]},
}).job)  # fmt: skip


def plan(
    tensor: int, pipeline: int, data: int, nodes: Sequence[str], **fields: Any
) -> dict[str, Any]:
    return {
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "data_parallel": data,
        "nodes": list(nodes),
        **fields,
    }


def asked(before: dict[str, Any], after: dict[str, Any], **fields: Any) -> TransitionRequest:
    return TransitionRequest.model_validate(
        {"job": JOB, "before": before, "after": after, **fields}
    )


_SHAPES = [(1, 2, 4), (2, 2, 2), (2, 4, 1), (1, 4, 2), (2, 1, 4), (1, 8, 1), (1, 1, 8)]


@given(
    before=st.sampled_from(_SHAPES),
    after=st.sampled_from(_SHAPES),
    nodes=st.permutations("abcd"),
    lost=st.sets(st.sampled_from("abcd"), max_size=2),
    zero=st.integers(0, 1),
)
@settings(max_examples=25, deadline=None)
def test_no_other_assignment_keeps_more_in_place(
    before: tuple[int, int, int],
    after: tuple[int, int, int],
    nodes: list[str],
    lost: set[str],
    zero: int,
) -> None:
    request = asked(
        plan(*before, "abcd", zero_stage=zero), plan(*after, "".join(nodes), zero_stage=zero),
        lost=sorted(lost),
    )  # fmt: skip
    answer = transition(request, FACTS)
    held = _Held(request, FACTS, Pairs(FACTS).of(request.before, request.after))
    most = max(
        float(sum(held.overlap[row, slot] for slot, row in enumerate(rows)))
        for rows in itertools.permutations(range(4))
    )
    assert answer.kept_bytes == pytest.approx(most, rel=1e-9, abs=1.0)
    needed = _needed(request)
    assert answer.kept_bytes + answer.moved_bytes + answer.lost_bytes == pytest.approx(needed)


def _needed(request: TransitionRequest) -> float:
    """Bytes that the nodes of the new plan hold together, a copy in each node counted once."""
    after = request.after
    parameters = float(FACTS.layers.parameters.sum())
    per_stage = after.tensor_parallel * after.data_parallel
    copies = 0.0
    for stage in range(after.pipeline_parallel):
        ranks = range(stage * per_stage, (stage + 1) * per_stage)
        held = {(rank // 2, rank % after.tensor_parallel) for rank in ranks}
        size = float(FACTS.layers.parameters[_stage(after.pipeline_parallel, stage)].sum())
        copies += size * 2.0 * len(held) / after.tensor_parallel
        if not after.zero_stage:
            copies += size * 12.0 * len(held) / after.tensor_parallel
    return copies + (parameters * 12.0 if after.zero_stage else 0.0)


def _stage(count: int, stage: int) -> np.ndarray[Any, Any]:
    return np.array_split(np.arange(len(FACTS.layers.parameters)), count)[stage]


def test_the_same_plan_on_the_same_nodes_moves_nothing() -> None:
    answer = transition(asked(plan(2, 2, 2, "abcd"), plan(2, 2, 2, "dcba")), FACTS)
    assert answer.nodes == list("abcd")
    assert answer.moved_bytes == answer.lost_bytes == 0
    assert not answer.rolls_back


def test_a_spare_takes_the_failed_nodes_place() -> None:
    whole = plan(2, 2, 2, "abcd", zero_stage=0)
    request = asked(whole, plan(2, 2, 2, "axcd", zero_stage=0), lost=["b"])
    answer = transition(request, FACTS)
    assert answer.nodes == list("axcd")
    assert {(move.source, move.target) for move in answer.moves} == {("a", "x")}
    assert answer.lost_bytes == 0  # its replica has all of it


def test_a_sharded_optimizers_lost_shard_comes_from_the_checkpoint() -> None:
    request = asked(
        plan(2, 2, 2, "abcd"), plan(2, 2, 2, "axcd"), lost=["b"], storage_bytes_per_second=1e10
    )
    answer = transition(request, FACTS)
    half = float(FACTS.layers.parameters[_stage(2, 0)].sum()) / 2
    assert answer.lost_bytes == pytest.approx(12.0 * half)
    assert answer.rolls_back
    assert answer.checkpoint_bytes == answer.state_bytes
    local = transition(request.model_copy(update={"local_checkpoints": True}), FACTS)
    assert local.checkpoint_bytes == local.lost_bytes
    assert local.seconds < answer.seconds


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-3-175b"])
def test_the_state_of_a_parameter_is_a_published_checkpoints(name: str) -> None:
    # Nemotron-4 15B and 340B: 13.1 and 12.9 bytes a parameter (dgxc-benchmarking v25.05).
    request = asked(plan(1, 1, 1, "a"), plan(1, 1, 1, "a"))
    job = request.job.model_copy(update={"model": request.job.model.model_copy(
        update={"name": name})})  # fmt: skip
    total = float(layers_of(job).parameters.sum())
    billions = {"llama-3.1-8b": 8.03e9, "gpt-3-175b": 174.6e9}[name]
    assert total == pytest.approx(billions, rel=0.01)
    assert 12.9 <= transition(request, FACTS).state_bytes_per_parameter <= 14.0


def test_too_few_nodes_and_wrong_stages_are_refused() -> None:
    with pytest.raises(BadRequest, match="are 4 nodes of 2"):
        transition(asked(plan(2, 2, 2, "abc"), plan(2, 2, 2, "abcd")), FACTS)
    with pytest.raises(BadRequest, match="blocks of the plan"):
        transition(asked(plan(2, 2, 2, "abcd"), plan(2, 2, 2, "abcd", stages=[1, 1])), FACTS)


_STRETCHES = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=5).map(
    lambda pairs: union((low, low + size) for low, size in pairs)
)


@given(_STRETCHES, _STRETCHES)
def test_stretches_are_sets_of_parts(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    one, two = _parts(first), _parts(second)
    assert common(first, second) == len(one & two)
    assert _parts(without(first, second)) == one - two
    assert _parts(both(first, second)) == one & two


def _parts(stretches: list[tuple[int, int]]) -> set[int]:
    return {part for low, high in stretches for part in range(low, high)}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"virtual_stages": 10**6}, "before.pipeline_parallel"),
        ({"data_parallel": 10**6}, "before.data_parallel"),
    ],
)
def test_a_plan_beyond_all_measure_is_refused_at_once(fields: dict[str, int], field: str) -> None:
    small = plan(2, 2, 2, "abcd")
    with pytest.raises(BadRequest) as refusal:
        transition(asked(small | fields, small))
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("before", "after", "lost", "field"),
    [
        ("abcd", "abcd", ["a", "x"], "lost[1]"),
        ("abca", "abcd", [], "before.nodes[3]"),
        ("abcd", "abbd", [], "after.nodes[2]"),
    ],
)
def test_a_lost_node_that_did_not_run_and_one_named_twice_are_refused(
    before: str, after: str, lost: list[str], field: str
) -> None:
    request = asked(plan(2, 2, 2, before), plan(2, 2, 2, after), lost=lost)
    with pytest.raises(BadRequest) as refusal:
        transition(request, FACTS)
    assert refusal.value.field == field
    assert refusal.value.hint


def test_a_node_is_written_as_a_list_can_hold_it() -> None:
    with pytest.raises(ValidationError):
        asked(plan(2, 2, 2, ["a b", "c", "d", "e"]), plan(2, 2, 2, "abcd"))
