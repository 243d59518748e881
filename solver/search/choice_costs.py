"""What each choice of a layout costs: the best with every value of a field beside the plan."""

from __future__ import annotations

import math
from collections.abc import Iterator

from solver.layouts import Layout
from solver.layouts.choices import ANY, FIELDS, Value, folds_alike, values_of
from solver.plan import Choice
from solver.request import LayoutRequest
from solver.search.choice_bounds import Least
from solver.search.outcome import Outcome

MOST_VALUES = 8
"""Values of a field that are told apart: the plan's own, and those of least bound."""

ROUNDING = 1e-9
"""Shares below that are none."""

ONE_IF_ABSENT = ("virtual_stages", "schedule")
"""Fields that are searched only where the request lists several values."""


def choice_costs(outcome: Outcome, best: Layout, seconds: float) -> list[Choice]:
    """What each value of each field costs against the plan's own, where there are several.

    Args:
        outcome: How the search ended.
        best: The layout of the plan.
        seconds: Its iteration.
    """
    made = _made(outcome, best, seconds)
    found = []
    for name, bounds in outcome.least.items():
        of_value = _resolved(bounds)
        if len(of_value) < 2 or _follows(name, outcome.least):
            continue
        own = _own(best, name)
        for value in _told(of_value, own):
            times = (made.get((name, which), math.inf) for which in (value, ANY))
            time = seconds if value == own else min(times)
            known = seconds > 0 and math.isfinite(time)
            found.append(
                Choice(
                    field=name,
                    value=value,
                    chosen=value == own,
                    iteration_seconds=time if math.isfinite(time) else None,
                    lower_bound_seconds=of_value[value],
                    slower_at_least=_slower(of_value[value], seconds) if seconds else 0.0,
                    slower_at_most=_slower(time, seconds) if known else None,
                )
            )
    return found


def fixed_fields(asked: LayoutRequest) -> list[str]:
    """The fields that have one value: by the request, or by what it takes where it says nothing."""
    values = {name: asked.values(name) for name in FIELDS}
    fixed = {name for name, given in values.items() if given is not None and len(given) == 1}
    fixed |= {name for name in ONE_IF_ABSENT if values[name] is None}
    return [name for name in FIELDS if name in fixed]


def _told(of_value: dict[Value, float], own: Value | None) -> list[Value]:
    """The plan's own value and those of least bound, ascending."""
    near = sorted(of_value, key=lambda value: (of_value[value], value != own))[:MOST_VALUES]
    own_too = {*near, *(value for value in of_value if value == own)}
    return sorted(own_too, key=lambda value: (isinstance(value, str), value))


def _follows(name: str, least: Least) -> bool:
    """Whether a field says nothing that another does not: how experts are split, without any."""
    return name == "expert_tensor_parallel" and least[name] == least["tensor_parallel"]


def _slower(time: float, than: float) -> float:
    share = time / than - 1.0
    return share if share > ROUNDING else 0.0


def _own(best: Layout, name: str) -> Value | None:
    """The plan's value, of a field that means nothing there the one that answers show."""
    own = dict(values_of(best)).get(name, ANY)
    shown: Value | None = getattr(best, name, ANY)
    return shown if own is ANY else own


def _made(outcome: Outcome, best: Layout, seconds: float) -> dict[tuple[str, Value | None], float]:
    """Of every field and value the fastest plan that was made."""
    made = dict.fromkeys(_surely(best), seconds)
    for loser in outcome.losers:
        if loser.makespan is not None:
            for key in _surely(loser.layout):
                made[key] = min(loser.makespan, made.get(key, math.inf))
    return made


def _surely(layout: Layout) -> Iterator[tuple[str, Value | None]]:
    """Its values, without a rank order that might not be legal there."""
    for name, value in values_of(layout):
        open_order = name == "rank_order" and value is ANY and layout.pipeline_parallel > 1
        yield name, layout.rank_order if open_order and not folds_alike(layout) else value


def _resolved(bounds: dict[Value | None, float]) -> dict[Value, float]:
    """The bound of every value, layouts that have them all included."""
    of_all = bounds.get(ANY, math.inf)
    return {value: min(bound, of_all) for value, bound in bounds.items() if value is not None}
