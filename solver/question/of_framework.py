"""Layouts that a framework runs beside the usual ones: other orders of ranks, other exchanges."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.errors import IllegalLayout
from solver.layouts import Layout
from solver.question.asked import Question
from solver.request import ContextMethod, PlanRequest, RankOrder
from solver.search.variants import no_better
from solver.targets.target import Target


def further_layouts(
    request: PlanRequest,
    target: Target,
    asked: Question,
    layouts_of: Callable[[PlanRequest], tuple[Layout, ...]],
) -> tuple[Layout, ...]:
    """Where rank order or context method is open, the layouts with other than the usual values.

    Those are left out that mean the same, or under which nothing takes less time or memory. What
    flags of a run or a profile describe is as they say.

    Args:
        request: What is fixed and what is open.
        target: The framework.
        asked: The question, for costs.
        layouts_of: The legal layouts of a request.
    """
    model = request.model
    if model.megatron_args is not None or model.profile is not None:
        return ()
    found = []
    for change in _changes(request, target):
        layout = request.layout.model_copy(update=change)
        try:
            legal = layouts_of(request.model_copy(update={"layout": layout}))
        except IllegalLayout:
            continue
        found += [one for one in legal if target.refusal(one) is None and _matters(one, asked)]
    return tuple(found)


def _changes(request: PlanRequest, target: Target) -> Iterator[dict[str, str]]:
    """Every combination of open values but the usual one."""
    open_ones = {
        name: values
        for name, values in (
            ("rank_order", target.rank_orders),
            ("context_method", target.context_methods),
        )
        if getattr(request.layout, name) is None and len(values) > 1
    }
    combinations = itertools.product(*open_ones.values())
    for values in itertools.islice(combinations, 1, None):
        yield dict(zip(open_ones, values, strict=True))


def _matters(layout: Layout, asked: Question) -> bool:
    """Whether the layout differs from the usual ones, and may be better than each."""
    order = RankOrder.DATA_INSIDE.value
    if layout.context_method != ContextMethod.RING and layout.context_parallel == 1:
        return False
    if layout.rank_order == order:
        return True
    if min(layout.pipeline_parallel, layout.data_parallel) == 1:
        return False
    return not no_better(asked.costs(layout), asked.costs(replace(layout, rank_order=order)))
