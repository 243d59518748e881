"""Time and memory of decided stages: the sweep over the schedule, and where the time goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.assess import assess
from solver.costs.pipeline import Account, Block, Op, OpKind, PipelineCosts, States
from solver.partition.menu import Part
from solver.partition.stages import Stage
from solver.recompute import Choice, choice_keeping, keep_all
from solver.schedules import GPipe, Interleaved, OneForwardOneBackward

LAYER = Block(
    name="layer",
    ops=(
        Op("product", ("x",), 3.0, 6.0, 4.0, backward_reads=("x", "product")),
        Op(
            "reduce",
            ("product",),
            1.0,
            2.0,
            2.0,
            kind=OpKind.COMMUNICATION,
            account=Account.TENSOR_PARALLEL,
        ),
    ),
    input_bytes=1.0,
    states=States(weights=2.0, gradients=3.0, optimizer=5.0),
    working_bytes=0.5,
    gradient_seconds=2.0,
    gather_seconds=1.0,
    optimizer_seconds=0.25,
)
KEPT, DROPPED = keep_all(LAYER), choice_keeping(LAYER, ())


def costs(layers: int = 4, micro_batches: int = 3) -> PipelineCosts:
    return PipelineCosts(
        blocks=(LAYER,),
        sequence=(0,) * layers,
        micro_batches=micro_batches,
        capacity_bytes=1e6,
        reserved_bytes=7.0,
        fixed_seconds=0.125,
    )


def stages(count: int, each: int, choice: Choice = KEPT) -> tuple[Stage, ...]:
    return tuple(Stage(s * each, (s + 1) * each, (Part(0, choice, each),)) for s in range(count))


def test_a_single_stage_adds_up() -> None:
    """3 micro-batches of 2 x (4 + 8), gathers, reductions, updates and the constant."""
    found = assess(costs(2), OneForwardOneBackward(1, 3), stages(1, 2))
    assert found.makespan == 3 * 24.0 + 2 * (1.0 + 2.0 + 0.25) + 0.125
    time = found.times[0]
    assert (time.forward, time.backward, time.recompute) == (8.0, 16.0, 0.0)
    assert (time.before_first, time.after_last, time.step) == (2.0, 4.0, 0.5)


def test_gathers_and_reductions_hide_under_what_they_overlap() -> None:
    overlapped = replace(costs(2), gather_overlap=0.125, gradient_overlap=0.125)
    time = assess(overlapped, OneForwardOneBackward(1, 3), stages(1, 2)).times[0]
    assert (time.before_first, time.after_last) == (2.0 - 1.0, 4.0 - 2.0)
    hidden = replace(costs(2), gather_overlap=1.0, gradient_overlap=1.0)
    time = assess(hidden, OneForwardOneBackward(1, 3), stages(1, 2)).times[0]
    assert (time.before_first, time.after_last) == (0.0, 0.0)


def test_recompute_lengthens_the_backward_but_hides_no_reduction() -> None:
    overlapped = replace(costs(2), gradient_overlap=0.125)
    time = assess(overlapped, OneForwardOneBackward(1, 3), stages(1, 2, DROPPED)).times[0]
    assert (time.recompute, time.backward) == (6.0, 22.0)
    assert time.after_last == 4.0 - 16.0 * 0.125


def test_the_peak_holds_every_micro_batch_in_flight() -> None:
    found = assess(costs(), OneForwardOneBackward(2, 3), stages(2, 2))
    assert found.in_flight == (2, 1)
    for memory, flight in zip(found.memory, found.in_flight, strict=True):
        assert memory.states == States(4.0, 6.0, 10.0)
        assert memory.activations == flight * 2 * 5.0
        assert (memory.recompute, memory.working, memory.reserved) == (0.0, 0.5, 7.0)
        assert memory.total == 20.0 + flight * 10.0 + 7.5
    assert found.peak_bytes == 47.5


def test_one_recompute_buffer_serves_all_blocks_of_a_stage() -> None:
    found = assess(costs(), GPipe(2, 3), stages(2, 2, DROPPED))
    for memory in found.memory:
        assert memory.activations == 3 * 2 * 1.0
        assert memory.recompute == 4.0


def test_the_buffer_is_that_of_the_block_that_needs_most() -> None:
    mixed = Stage(0, 2, (Part(0, KEPT, 1), Part(0, DROPPED, 1)))
    found = assess(costs(2), OneForwardOneBackward(1, 3), (mixed,))
    assert found.memory[0].activations == 5.0 + 1.0
    assert found.memory[0].recompute == 4.0
    assert found.times[0].recompute == 3.0


def test_an_interleaved_device_holds_the_chunks_it_ran_ahead() -> None:
    """Device 0 of p = v = 2 runs 2 + 2 chunk passes ahead and one more before a backward."""
    found = assess(costs(4, micro_batches=4), Interleaved(2, 4, 2), stages(4, 1))
    assert [memory.activations for memory in found.memory] == [5 * 5.0, 3 * 5.0]
    assert [memory.states.total for memory in found.memory] == [20.0, 20.0]


def test_the_seconds_add_up_to_the_makespan() -> None:
    for schedule in (OneForwardOneBackward(2, 3), GPipe(2, 3)):
        with_sends = replace(costs(), send_seconds=0.5)
        found = assess(with_sends, schedule, stages(2, 2, DROPPED))
        seconds = found.seconds
        total = sum(seconds.by_account.values()) + seconds.recompute + seconds.bubble
        total += seconds.pipeline_parallel + seconds.data_parallel
        total += seconds.optimizer + seconds.other
        assert total == pytest.approx(found.makespan)


def test_seconds_are_charged_to_the_account_of_each_op() -> None:
    found = assess(costs(2), OneForwardOneBackward(1, 3), stages(1, 2))
    seconds = found.seconds
    assert seconds.by_account[Account.COMPUTE] == 3 * 2 * 9.0
    assert seconds.by_account[Account.TENSOR_PARALLEL] == 3 * 2 * 3.0
    assert (seconds.data_parallel, seconds.optimizer, seconds.other) == (6.0, 0.5, 0.125)
    assert seconds.bubble == pytest.approx(0.0)


def test_the_bubble_of_equal_stages_is_p_minus_1_turns() -> None:
    plain = replace(LAYER, gradient_seconds=0.0, gather_seconds=0.0, optimizer_seconds=0.0)
    simple = replace(costs(), blocks=(plain,), fixed_seconds=0.0)
    found = assess(simple, OneForwardOneBackward(2, 3), stages(2, 2))
    assert found.seconds.bubble == pytest.approx(24.0)


@pytest.mark.parametrize(("capacity", "fits"), [(47.5, True), (47.4, False)])
def test_it_fits_if_every_device_holds_what_it_must(capacity: float, fits: bool) -> None:
    limited = replace(costs(), capacity_bytes=capacity)
    assert assess(limited, OneForwardOneBackward(2, 3), stages(2, 2)).fits is fits


def test_the_optimizers_step_may_be_the_fullest_moment() -> None:
    """Nothing is in flight then; what backward worked in stays with the allocator."""
    backward = assess(costs(2), OneForwardOneBackward(1, 3), stages(1, 2))
    held = backward.memory[0].activations + backward.memory[0].recompute
    for update in (held / 2 - 0.25, held / 2 + 0.25):
        stepping = replace(LAYER, update_bytes=update)
        found = assess(
            replace(costs(2), blocks=(stepping,)), OneForwardOneBackward(1, 3), stages(1, 2)
        )
        assert found.peak_bytes == backward.peak_bytes + max(0.0, 2 * update - held)
        memory = found.memory[0]
        if 2 * update > held:
            assert memory.activations == memory.recompute == 0.0
            assert memory.states.optimizer == 2 * (LAYER.states.optimizer + update)
            assert memory.working == LAYER.working_bytes
    large = replace(costs(2), blocks=(replace(LAYER, update_bytes=100.0),))
    (allocated,) = assess(large, OneForwardOneBackward(1, 3), stages(1, 2)).allocated
    assert allocated.moment == "optimizer step"
    assert allocated.peak == allocated.steady + 200.0
