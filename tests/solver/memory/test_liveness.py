"""What a block holds while it runs, on graphs small enough to count by hand."""

from __future__ import annotations

from solver.costs.pipeline import Block, Op
from solver.memory.liveness import passes
from solver.recompute.choice import choice_keeping, keep_all
from solver.recompute.policies import full

# x -> a -> b -> c, of 10, 20, 30 and 10 bytes; b and c read their inputs again in backward.
CHAIN = Block(
    "chain",
    (
        Op("a", ("x",), 1.0, 1.0, 20.0),
        Op("b", ("a",), 1.0, 1.0, 30.0, ("a",)),
        Op("c", ("b",), 1.0, 1.0, 10.0, ("b",)),
    ),
    input_bytes=10.0,
    rerun_seconds=3.0,
)


def test_forward_frees_what_nobody_needs_after_its_last_use() -> None:
    kept = passes(CHAIN, keep_all(CHAIN))
    assert kept.kept == 60.0
    assert kept.forward_peak == 10 + 20 + 30 + 10
    assert passes(CHAIN, full(CHAIN)).forward_peak == 10 + 20 + 30


def test_backward_holds_a_gradient_until_its_op_has_run() -> None:
    # At c: x, a, b kept, gradients of c and b. At b: x, a, b's gradient and a's.
    assert passes(CHAIN, keep_all(CHAIN)).backward_peak == 10 + 20 + 30 + 10 + 30


def test_a_rebuilt_tensor_lives_from_its_first_reader_on() -> None:
    rebuilt = passes(CHAIN, choice_keeping(CHAIN, {"a"}))
    assert rebuilt.kept == 30.0
    assert rebuilt.backward_peak == 10 + 20 + 30 + 10 + 30


def test_full_recompute_runs_the_whole_forward_first() -> None:
    whole = passes(CHAIN, full(CHAIN))
    assert whole.kept == 10.0
    assert whole.backward_peak == max(70 + 10, 100)


def test_a_group_rebuilds_all_its_blocks_together() -> None:
    one, three = passes(CHAIN, full(CHAIN)), passes(CHAIN, full(CHAIN), 3)
    assert three.kept == one.kept
    assert three.backward_peak == one.backward_peak + 2 * 60


def test_temporaries_count_while_their_op_runs() -> None:
    busy = Block(
        "busy",
        (Op("a", ("x",), 1.0, 1.0, 20.0, ("x",), forward_bytes=5.0, backward_bytes=7.0),),
        input_bytes=10.0,
    )
    found = passes(busy, keep_all(busy))
    assert found.forward_peak == 10 + 20 + 5
    assert found.backward_peak == 10 + 20 + 10 + 7


def test_a_mask_has_no_gradient() -> None:
    masked = Block(
        "masked",
        (Op("mask", (), 1.0, 0.0, 4.0), Op("out", ("x", "mask"), 1.0, 1.0, 8.0, ("mask",))),
        input_bytes=8.0,
    )
    assert passes(masked, keep_all(masked)).backward_peak == 8 + 4 + 8 + 8
