"""The frontier against plain enumeration of every choice."""

from __future__ import annotations

import pytest

from solver.costs.pipeline import Block, Op
from solver.errors import BadRequest
from solver.recompute import (
    Frontier,
    choice_keeping,
    frontier,
    frontier_of,
    keep_all,
    needed_tensors,
)
from tests.solver.exhaustive import block_choices
from tests.solver.recompute.samples import ATTENTION, random_blocks

BLOCKS = random_blocks(120, most_ops=8)
ROUNDING = 1e-9


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_every_choice_can_be_replaced_by_one_of_the_frontier(block: Block) -> None:
    """No slower, keeping no more, and kept and recomputed bytes together no more."""
    choices = frontier(block).choices
    for kept, seconds, rebuilt in block_choices(block):
        assert any(
            choice.seconds <= seconds + ROUNDING
            and choice.kept_bytes <= kept + ROUNDING
            and choice.kept_bytes + choice.recompute_bytes <= kept + rebuilt + ROUNDING
            for choice in choices
        )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_every_choice_of_the_frontier_is_real(block: Block) -> None:
    for choice in frontier(block).choices:
        real = choice_keeping(block, needed_tensors(block) - set(choice.recomputed))
        assert choice.recomputed == real.recomputed
        assert choice.kept_bytes == pytest.approx(real.kept_bytes, rel=1e-12)
        assert choice.seconds == pytest.approx(real.seconds, rel=1e-12)
        assert choice.recompute_bytes == pytest.approx(real.recompute_bytes, rel=1e-12)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_no_choice_of_the_frontier_can_be_replaced_by_another(block: Block) -> None:
    choices = frontier(block).choices
    for one in choices:
        for other in choices:
            assert one is other or (
                other.seconds > one.seconds
                or other.kept_bytes > one.kept_bytes
                or other.kept_bytes + other.recompute_bytes > one.kept_bytes + one.recompute_bytes
            )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_a_block_that_keeps_all_it_needs_loses_no_time(block: Block) -> None:
    found = frontier(block)
    assert found.seconds.min() == 0.0
    assert found.kept.min() == choice_keeping(block, ()).kept_bytes


def test_the_arrays_say_what_the_choices_say() -> None:
    found = frontier(ATTENTION)
    assert found.kept.tolist() == [choice.kept_bytes for choice in found.choices]
    assert found.seconds.tolist() == [choice.seconds for choice in found.choices]
    assert found.rebuilt.tolist() == [choice.recompute_bytes for choice in found.choices]
    assert found.kept.tolist() == sorted(found.kept)


def test_the_frontier_of_attention_by_hand() -> None:
    """7 of its 8 choices: dropping norm and context is no faster than scores and keeps more."""
    assert {(c.recomputed, c.kept_bytes, c.seconds) for c in frontier(ATTENTION).choices} == {
        ((), 140.0, 0.0),
        (("norm",), 130.0, 1.0),
        (("context",), 120.0, 3.0),
        (("scores",), 40.0, 4.0),
        (("norm", "scores"), 30.0, 5.0),
        (("scores", "context"), 20.0, 7.0),
        (("norm", "scores", "context"), 10.0, 8.0),
    }


def test_a_policy_is_a_frontier_of_one_choice() -> None:
    found = frontier_of([keep_all(ATTENTION)])
    assert isinstance(found, Frontier)
    assert found.choices == (keep_all(ATTENTION),)


def test_the_frontier_is_the_same_each_time() -> None:
    assert frontier(ATTENTION).choices == frontier(ATTENTION).choices


def test_a_block_with_too_many_ways_is_refused_and_says_what_to_do() -> None:
    ops = tuple(
        Op(f"t{i}", ("x",), 1.0 + 2.0**-i, 0.0, 1.0 + 3.0**-i, backward_reads=(f"t{i}",))
        for i in range(40)
    )
    with pytest.raises(BadRequest, match="too many tensors") as caught:
        frontier(Block("wide", ops, 1.0))
    assert caught.value.hint is not None
