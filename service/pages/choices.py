"""What each value of a field of the layout would cost, in a few signs."""

from __future__ import annotations

from dataclasses import dataclass

from service.console.quantities import percent
from solver.plan import Choice, Plan

_SAME = 5e-5


@dataclass(frozen=True)
class Value:
    """A value that a field may have, whether the plan has it, and how much slower it makes it."""

    value: str
    chosen: bool
    slower: str


def choices(plan: Plan) -> dict[str, list[Value]]:
    """The values of every field that was open, by the field's name."""
    found: dict[str, list[Value]] = {}
    for choice in plan.choices:
        found.setdefault(choice.field.replace("_", " "), []).append(
            Value(_written(choice.value), choice.chosen, _slower(choice))
        )
    return found


def _slower(choice: Choice) -> str:
    """``≥ 1.2%`` where only a bound is known, ``0% to 8.1%`` where a plan was made too."""
    least, most = choice.slower_at_least, choice.slower_at_most
    if most is None:
        return f"≥ {percent(least)}" if least >= _SAME else "not told apart"
    if most - least < _SAME:
        return percent(most)
    return f"{percent(least) if least >= _SAME else '0%'} to {percent(most)}"


def _written(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
