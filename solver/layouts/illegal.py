"""The error of an illegal layout: which field to change, and the nearest legal values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from solver.errors import IllegalLayout
from solver.layouts.layout import Layout
from solver.layouts.rules import Violation, violations
from solver.layouts.schedules import NAMES
from solver.layouts.setting import Setting, divisors
from solver.request import ContextMethod, RankOrder

_BATCH_RULES = frozenset({"batch", "micro-batch"})

_MOST_TRIED = 4096


def illegal(
    broken: Violation,
    layout: Layout,
    setting: Setting,
    known: frozenset[str],
    given: frozenset[str],
) -> IllegalLayout:
    """The error of a broken rule, at a field that the caller gave.

    Args:
        broken: The rule and how it is broken.
        layout: The layout; fields outside ``known`` are not decided.
        setting: What the layout must suit.
        known: The fields that are decided.
        given: The fields that the caller fixed.
    """
    if broken.field in given:
        nearest = _nearest(broken, layout, setting, known)
        return IllegalLayout(
            broken.detail, field=f"layout.{broken.field}", hint=_hint(nearest, broken.field)
        )
    if broken.rule in _BATCH_RULES:
        batches = _nearest_batches(setting.global_batch_size, layout)
        return IllegalLayout(
            broken.detail, field="training.global_batch_size", hint=_hint(batches, "the batch")
        )
    blamed = next(
        (
            name
            for name in ("pipeline_parallel", "data_parallel", "tensor_parallel")
            if name in given
        ),
        broken.field,
    )
    return IllegalLayout(
        f"With what is given, {broken.field} has to be {getattr(layout, broken.field)}. "
        f"{broken.detail}",
        field=f"layout.{blamed}",
        hint="Change it, or leave more fields to the solver.",
    )


def _nearest_batches(batch: int, layout: Layout) -> list[int]:
    step = layout.data_parallel * layout.micro_batch_size
    below = batch // step * step
    return [size for size in (below, below + step) if size > 0]


def _nearest(
    broken: Violation, layout: Layout, setting: Setting, known: frozenset[str]
) -> list[Any]:
    """Legal values of the field next to its present one, the others unchanged.

    If no value satisfies all rules, values that satisfy the broken one.
    """
    present = getattr(layout, broken.field)
    legal: list[Any] = []
    mending: list[Any] = []
    for value in _values(broken.field, setting):
        if value != present:
            change: dict[str, Any] = {broken.field: value}
            candidate = replace(layout, **change)
            still = {found.rule for found in violations(candidate, setting, known)}
            if not still:
                legal.append(value)
            if broken.rule not in still:
                mending.append(value)
    values = legal or mending
    if isinstance(present, bool | str):
        return values
    below = [value for value in values if value < present]
    above = [value for value in values if value > present]
    return below[-1:] + above[:1]


def _values(name: str, setting: Setting) -> Sequence[Any]:
    """The values worth trying for a field, ascending."""
    if name == "sequence_parallel":
        return [False, True]
    if name == "schedule":
        return NAMES
    if name == "context_method":
        return [method.value for method in ContextMethod]
    if name == "rank_order":
        return [order.value for order in RankOrder]
    if name == "zero_stage":
        return range(4)
    if name == "virtual_stages":
        return range(1, setting.architecture.num_layers + 1)
    if name == "micro_batch_size":
        return divisors(setting.global_batch_size)
    if name == "expert_parallel":
        return sorted({1}.union(*map(divisors, setting.experts)))
    if setting.all_devices:
        return divisors(setting.devices)
    return range(1, min(setting.devices, _MOST_TRIED) + 1)


def _hint(values: Sequence[Any], name: str) -> str:
    if not values:
        return f"No value of {name} helps; change another field."
    shown = " or ".join(str(value).lower() for value in values)
    return f"Nearest legal value{'s' if len(values) > 1 else ''}: {shown}."
