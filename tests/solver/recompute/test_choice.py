"""What keeping and recomputing mean, in the contract's words."""

from __future__ import annotations

import pytest

from solver.costs.pipeline import Block, Op
from solver.recompute import choice_keeping, keep_all, needed_tensors
from tests.solver.recompute.samples import ATTENTION


def test_a_tensor_is_needed_if_some_backward_reads_it() -> None:
    assert needed_tensors(ATTENTION) == {"norm", "scores", "context"}


def test_the_input_is_always_kept() -> None:
    assert choice_keeping(ATTENTION, ()).kept_bytes == 10.0


def test_a_tensor_that_nobody_needs_is_never_kept() -> None:
    with_sum = choice_keeping(ATTENTION, ("norm", "scores", "context", "sum"))
    assert with_sum == keep_all(ATTENTION)
    assert with_sum.kept_bytes == 10.0 + 10.0 + 100.0 + 20.0
    assert with_sum.seconds == with_sum.recompute_bytes == 0.0


def test_what_is_not_kept_is_recomputed_from_what_is() -> None:
    choice = choice_keeping(ATTENTION, ("norm", "context"))
    assert choice.recomputed == ("scores",)
    assert choice.kept_bytes == 10.0 + 10.0 + 20.0
    assert (choice.seconds, choice.recompute_bytes) == (4.0, 100.0)


def test_what_is_recomputed_is_named_in_the_order_of_ops() -> None:
    choice = choice_keeping(ATTENTION, ())
    assert choice.recomputed == ("norm", "scores", "context")
    assert (choice.seconds, choice.recompute_bytes) == (1.0 + 4.0 + 3.0, 130.0)


CHAIN = Block(
    name="chain",
    ops=(
        Op("early", ("x",), 5.0, 0.0, 50.0),
        Op("middle", ("early",), 2.0, 0.0, 3.0),
        Op("late", ("middle",), 1.0, 0.0, 4.0, backward_reads=("late",)),
    ),
    input_bytes=1.0,
)
"""Only late is needed, and it is made from early and middle."""


def test_recomputing_costs_the_unneeded_tensors_on_the_way() -> None:
    choice = choice_keeping(CHAIN, ())
    assert choice.recomputed == ("early", "middle", "late")
    assert choice.seconds == 8.0
    assert choice.recompute_bytes == 57.0


def test_keeping_the_needed_tensor_spares_the_way_to_it() -> None:
    choice = choice_keeping(CHAIN, ("late",))
    assert choice.recomputed == ()
    assert choice.kept_bytes == 5.0


@pytest.mark.parametrize("kept", [("early",), ("middle",), ("early", "middle")])
def test_unneeded_tensors_cannot_be_kept_as_a_short_cut(kept: tuple[str, ...]) -> None:
    assert choice_keeping(CHAIN, kept) == choice_keeping(CHAIN, ())


def test_a_recomputed_tensor_may_feed_two_others_and_runs_once() -> None:
    choice = choice_keeping(ATTENTION, ())
    assert choice.seconds == sum(op.forward_seconds for op in ATTENTION.ops[:3])
