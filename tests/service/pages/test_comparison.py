"""A comparison marks what differs and what is best, and nothing else."""

from __future__ import annotations

import pytest

from service.pages.comparison import Line, compare
from service.pages.shown import ShownPlan
from solver.plan import Plan
from tests.service.pages.plans import long_pipeline, sample_plan


def lines(*plans: ShownPlan) -> dict[str, Line]:
    return {line.name: line for group in compare(plans) for line in group.lines}


def test_equal_plans_differ_in_nothing() -> None:
    assert not any(line.differs for line in lines(sample_plan(), sample_plan()).values())


def test_what_differs_is_marked_and_the_best_is_named() -> None:
    slower = sample_plan()
    slower.plan = slower.plan.model_copy(update={"iteration_seconds": 0.9})
    found = lines(sample_plan(), slower)
    assert [name for name, line in found.items() if line.differs] == ["Iteration"]
    assert [cell.best for cell in found["Iteration"].cells] == [True, False]
    assert [cell.change for cell in found["Iteration"].cells] == ["", "+55%"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.582 * 1.2, "+20%"),
        (0.582 * 0.6, "−40%"),
        (0.582 * 3.4, "3.4× slower"),
        (0.582 / 248, "248× faster"),
    ],
)
def test_differences_are_shares_while_they_are_small_and_multiples_beyond(
    seconds: float, said: str
) -> None:
    first, other = sample_plan(), sample_plan()
    first.plan = first.plan.model_copy(update={"iteration_seconds": 0.582})
    other.plan = other.plan.model_copy(update={"iteration_seconds": seconds})
    assert lines(first, other)["Iteration"].cells[1].change == said


def test_layouts_are_compared_field_by_field() -> None:
    found = lines(sample_plan(), long_pipeline(8, 8))
    assert found["Pipeline parallel"].differs
    assert [cell.text for cell in found["Pipeline parallel"].cells] == ["2", "8"]
    assert not found["Tensor parallel"].differs


def test_beside_a_plan_that_does_not_fit_only_what_the_others_found_is_marked() -> None:
    unfit = sample_plan()
    answer = {"id": unfit.plan.id, "status": "infeasible", "memory_limit_bytes": 1e9}
    unfit = ShownPlan(unfit.request, Plan.model_validate(answer))
    found = lines(sample_plan(), unfit)
    assert [name for name, line in found.items() if line.differs] == ["State"]
    assert [cell.text for cell in found["State"].cells] == ["succeeded", "infeasible"]
    assert lines(sample_plan(), long_pipeline(8, 8), unfit)["Pipeline parallel"].differs
