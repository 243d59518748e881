"""Why a layout lost, in words."""

from __future__ import annotations

from dataclasses import dataclass

from service.console.layouts import layout_in_short
from solver.plan import Alternative, LostBy, Plan

_WHY = {
    LostBy.COMPUTE: "Its blocks take longer to compute.",
    LostBy.COMMUNICATION: "It communicates more.",
    LostBy.BUBBLE: "Its devices wait longer.",
    LostBy.MEMORY: "Its memory makes it recompute more.",
    LostBy.OPEN: "Its bound does not decide why.",
}


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
        why=_WHY[other.reason],
    )
