"""Why a layout lost, in words."""

from __future__ import annotations

from dataclasses import dataclass

from service.console.layouts import layout_in_short
from solver.plan import Alternative, Plan


@dataclass(frozen=True)
class Lost:
    """A layout that did not win: its best plan in seconds (None where only bounded), and why."""

    layout: str
    seconds: float | None
    bound: float
    slower: float
    why: str


def lost(other: Alternative, plan: Plan) -> Lost:
    """The words for one of the plan's alternatives."""
    return Lost(
        layout=layout_in_short(other.layout, plan.layout),
        seconds=other.iteration_seconds,
        bound=other.lower_bound_seconds,
        slower=other.slower,
        why="Its best plan is slower."
        if other.iteration_seconds is not None
        else "Even its bound is above this plan's time.",
    )
