"""Menus of schedules that make the gradients of weights apart: memory is full at several moments.

What waits for such gradients depends on a stage's blocks, not on what they recompute, so that each
moment (``schedules/moments.py``) leaves a run so many bytes to keep per micro-batch::

    kept <= (capacity - reserved - states - waiting x held - R) / alive

R being the working memory where a backward begins and zero between tasks; the least of them counts.
Moments differ from stage to stage, so where other menus take micro-batches in flight these take the
number of the stage.
"""

from __future__ import annotations

import math

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.errors import BadRequest
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Floats, Index, Menu
from solver.partition.ruled_menu import Ruled, RuledMenu
from solver.schedules import Schedule
from solver.schedules.moments import moments


def menu_by_stage(costs: PipelineCosts, menu: Menu, schedule: Schedule) -> tuple[Menu, Index]:
    """The menu to ask about a schedule's stages, and what to ask it for each of them.

    Args:
        costs: What each block costs.
        menu: What its blocks may choose among.
        schedule: A schedule with one stage per device.
    """
    stages = range(schedule.stages)
    if not schedule.splits_backward:
        return menu, np.array([schedule.in_flight(stage) for stage in stages])
    holds = Holds(costs, schedule)
    if isinstance(menu, RuledMenu):
        return DeferringRuledMenu(costs, menu, holds), np.arange(schedule.stages)
    if not isinstance(menu, FreeMenu):
        raise BadRequest(
            "Schedules that make gradients of weights apart are planned with a free choice for "
            "every block or with a fixed policy.",
            field="layout.schedule",
            hint="Ask for 1f1b or gpipe, or leave recompute.choice_per, recompute.overlap and "
            "target out.",
        )
    return DeferringMenu(costs, menu, holds), np.arange(schedule.stages)


MUCH = 1e300
"""Bytes that nothing has room for."""


class Holds:
    """The decisive moments of every stage alone on its device.

    ``alive``, ``waiting`` and ``acting`` have shape (stages, moments), moments repeated where a
    stage has fewer; ``held`` shape (kinds,): what a block's gradients of weights wait with.
    """

    def __init__(self, costs: PipelineCosts, schedule: Schedule) -> None:
        found = [
            [(moment.alive[0], moment.waiting[0], moment.acting is not None) for moment in here]
            for here in (moments(schedule, stage) for stage in range(schedule.stages))
        ]
        most = max(len(here) for here in found)
        table = np.array([[*here, *[here[-1]] * (most - len(here))] for here in found])
        self.alive, self.waiting, self.acting = np.moveaxis(table.astype(np.float64), 2, 0)
        self.held = np.array([block.weight_held_bytes for block in costs.blocks])

    def room(self, free: Floats, working: Floats, waits: Floats, stage: Index | int) -> Floats:
        """Kept bytes per micro-batch that fit, of broadcast shape.

        Args:
            free: Bytes beside states and reserve.
            working: Working memory while a backward begins.
            waits: Bytes that one micro-batch waits with.
            stage: Which stage's moments.
        """
        alive, waiting, acting = self.alive[stage], self.waiting[stage], self.acting[stage]
        beside = waiting * np.asarray(waits)[..., None] + acting * np.asarray(working)[..., None]
        left = np.asarray(free)[..., None] - beside
        some = np.maximum(alive, 1.0)
        nothing = np.where(left >= 0, math.inf, -MUCH)
        return np.asarray(np.where(alive > 0, left / some, nothing).min(axis=-1))

    def needed(self, kept: Floats, working: Floats, waits: Floats, stage: int) -> Floats:
        """Bytes at the fullest moment beside states and reserve, of broadcast shape."""
        kept, working, waits = (np.asarray(part)[..., None] for part in (kept, working, waits))
        alive, waiting, acting = self.alive[stage], self.waiting[stage], self.acting[stage]
        return np.asarray((alive * kept + waiting * waits + acting * working).max(axis=-1))


class DeferringMenu(FreeMenu):
    """A free menu by stage."""

    def __init__(self, costs: PipelineCosts, menu: FreeMenu, holds: Holds) -> None:
        super().__init__(costs, menu.frontiers)
        self._holds = holds

    def _room(
        self, values: Floats, counts: Index, states: Floats | float, in_flight: Index | int
    ) -> Floats:
        free = np.asarray(self._budget - states)
        return self._holds.room(free, values, counts @ self._holds.held, in_flight)

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """Every block at its least, at the fullest moment of each stage."""
        absent = ~np.isfinite(self._least)
        lacking = np.asarray((counts > 0) @ absent)
        kept = np.asarray(counts @ np.where(absent, 0.0, self._least), dtype=np.float64)
        waits = (counts @ self._holds.held)[:, None]
        found = []
        for stage in in_flight.tolist():
            needed = self._holds.needed(kept, self._values, waits, stage)
            found.append(states + np.where(lacking, math.inf, needed).min(axis=1) + self._reserved)
        return np.stack(found)


class DeferringRuledMenu(RuledMenu):
    """A ruled menu by stage."""

    def __init__(self, costs: PipelineCosts, menu: RuledMenu, holds: Holds) -> None:
        super().__init__(costs, menu.rule)
        self._holds = holds
        self._by_mix = menu.known_mixes

    def least_bytes(self, counts: Index, states: Floats, in_flight: Index) -> Floats:
        """The rule's own bytes at the fullest moment of each stage."""
        _, kept, working = self._columns(counts)
        waits = np.asarray(counts @ self._holds.held)
        held = [self._holds.needed(kept, working, waits, stage) for stage in in_flight.tolist()]
        return np.stack([states + one + self._costs.reserved_bytes for one in held])

    def _needed(
        self, counts: tuple[int, ...], ruled: Ruled, states: float, in_flight: int
    ) -> float:
        waits = np.asarray(np.array(counts) @ self._holds.held)
        kept, working = np.array(ruled.kept), np.array(ruled.working)
        held = float(self._holds.needed(kept, working, waits, in_flight))
        return states + held + self._costs.reserved_bytes
