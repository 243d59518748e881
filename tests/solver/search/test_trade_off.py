"""What else a search tells: the curve of time against memory, the price of each choice, reasons."""

from __future__ import annotations

import itertools
from functools import cache

from solver.plan import LostBy, Plan
from solver.planner import plan
from solver.request import SolverOptions
from tests.solver.search.test_spaces import small_space


@cache
def answered() -> Plan:
    options = SolverOptions(trade_off=True, alternatives=3, relative_gap=0.0)
    return plan(small_space(9).model_copy(update={"solver": options}))


def test_less_memory_is_never_faster_and_every_point_keeps_its_memory() -> None:
    points = answered().trade_off
    assert len(points) > 1
    for less, more in itertools.pairwise(points):
        assert less.memory_bytes < more.memory_bytes
        assert less.iteration_seconds > more.iteration_seconds
    for point in points:
        assert point.peak_memory_bytes <= point.memory_bytes * (1 + 1e-9)
        assert point.lower_bound_seconds <= point.iteration_seconds * (1 + 1e-9)
    assert points[-1].iteration_seconds == answered().iteration_seconds


def test_each_value_of_an_open_field_has_its_price() -> None:
    found = answered()
    assert found.layout is not None
    by_field = {choice.field for choice in found.choices}
    assert {"tensor_parallel", "pipeline_parallel", "sharding_group"} <= by_field
    assert not by_field & set(found.fixed_fields)
    assert {"zero_stage", "schedule", "rank_order"} <= set(found.fixed_fields)
    for choice in found.choices:
        assert choice.slower_at_least >= 0
        assert choice.chosen == (getattr(found.layout, choice.field) == choice.value)
        if choice.chosen:
            assert choice.iteration_seconds == found.iteration_seconds
        elif choice.slower_at_most is not None:
            assert choice.slower_at_most >= choice.slower_at_least * (1 - 1e-9)


def test_as_many_alternatives_as_asked_each_with_a_reason() -> None:
    found = answered()
    assert len(found.alternatives) == 3
    assert all(other.layout != found.layout for other in found.alternatives)
    assert all(other.reason is not LostBy.OPEN for other in found.alternatives)
