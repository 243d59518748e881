"""Recompute ahead of backward and late gradients of weights: what such work waits for and holds."""

from __future__ import annotations

import random

import pytest

from solver.schedules import OneForwardOneBackward, StageTimes, schedule_graph, simulate
from solver.schedules.moments import moments
from tests.solver.schedules.reference import EveryWork, times_of


def makespan(schedule: OneForwardOneBackward, times: StageTimes) -> float:
    return float(simulate(schedule_graph(schedule), times).makespan[0])


def test_work_of_no_length_changes_nothing() -> None:
    for seed in range(20):
        times = times_of(random.Random(seed), 4)
        bare = StageTimes(
            times.forward,
            times.backward,
            times.send,
            times.before_first,
            times.after_last,
            times.step,
        )
        plain = makespan(OneForwardOneBackward(4, 6), bare)
        assert makespan(EveryWork(4, 6), bare) == pytest.approx(plain, rel=1e-12)


def test_recompute_ahead_hides_where_a_stage_waits_for_its_gradient() -> None:
    forward, backward = [1.0, 1.0], [2.0, 2.0]
    on_demand = StageTimes.of(forward, [3.0, 2.0])
    ahead = StageTimes.of(forward, backward, recompute=[1.0, 0.0])
    assert makespan(EveryWork(2, 1), on_demand) == 7.0
    assert makespan(EveryWork(2, 1), ahead) == 6.0  # stage 0 rebuilds while stage 1 is at work


def test_late_gradients_of_weights_let_the_earlier_stage_begin() -> None:
    together = StageTimes.of([1.0, 1.0], [2.0, 2.0])
    apart = StageTimes.of([1.0, 1.0], [1.0, 1.0], weight=[1.0, 1.0])
    assert makespan(EveryWork(2, 1), together) == 6.0
    assert makespan(EveryWork(2, 1), apart) == 5.0


def test_what_waits_for_its_gradients_of_weights_is_counted_apart() -> None:
    found = {
        (moment.acting, moment.alive, moment.waiting) for moment in moments(EveryWork(4, 6), 1)
    }
    assert (1, (3,), (1,)) in found  # a backward begins: one micro-batch before it waits
    assert (None, (2,), (2,)) in found  # it has ended: two wait


def test_without_late_gradients_only_backwards_are_looked_at() -> None:
    for device in range(4):
        found = moments(OneForwardOneBackward(4, 6), device)
        assert [(moment.acting, moment.alive, moment.waiting) for moment in found] == [
            (device, (4 - device,), (0,))
        ]
