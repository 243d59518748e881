"""The search over layouts: the best first, until no other can be better.

Bounds of a layout come in stages, each dearer and tighter than the last: from the work, the bubble
and the memory of its family (``frontier.py``, ``bound.py``), from its own costs (``heads.py``),
then from the cuts that the memory allows (``steps.py``). The layout of least bound is always next:
it gets its next bound, or if it has them all it is solved exactly, and given up as soon as its own
bound passes the best plan found. What was given up, and at which bound, is the proof.

Two kinds of layouts are treated apart: variants of a layout that shard states over fewer replicas
(``heads.py``), and layouts whose stages share devices (``apart.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.layouts.family import Family
from solver.partition.free_menu import FreeMenu
from solver.partition.menu import Menu
from solver.partition.regime import Regime
from solver.progress import Progress
from solver.recompute.frontier import Frontier as Choices
from solver.search.apart import try_shared
from solver.search.frontier import Frontier
from solver.search.hand_over import hand_over
from solver.search.heads import open_member, release_variants
from solver.search.outcome import Found, Loser, Outcome
from solver.search.proof import outcome, standing
from solver.search.rough import RoughTotals
from solver.search.state import Regimes, State
from solver.search.steps import solve_again, step

__all__ = ["Found", "Loser", "Outcome", "Regimes", "one_regime", "search", "standing"]

FEW = 6
"""Layouts that share devices up to which all are solved like any other."""


def one_regime(menu_of: Callable[[PipelineCosts], Menu], *, ahead: bool = False) -> Regimes:
    """Every plan is made with the one menu of its costs; ``ahead``: as ``Regime``."""
    return lambda layout, costs: [Regime(menu_of, ahead=ahead)]  # noqa: ARG005


def search(
    families: tuple[Family, ...],
    costs_of: Callable[[Layout], PipelineCosts],
    regimes_of: Regimes,
    *,
    relative_gap: float,
    time_limit_seconds: float,
    floor_seconds: float = 0.0,
    ceiling_seconds: float = math.inf,
    inputs_kept: bool = True,
    rough: RoughTotals | None = None,
    most_solved: int | None = None,
    thorough: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """The fastest plan over all layouts, their regimes, recompute choices and partitions.

    A layout's ``costs_of`` may be called twice; it should be cheap or remember. Of its regimes the
    first is the one that needs least memory. ``floor_seconds``: what no plan is below, as far as it
    is known beforehand; the search ends where it is reached. ``ceiling_seconds``: a plan as slow as
    that is of no use, as one is known; where nothing is faster, nothing is found.
    ``inputs_kept``: every layer keeps its input, whatever the regime. ``rough``: what families come
    to at least before their costs are known; None: all costs are asked for at once.
    ``most_solved``: after so many layouts the search ends; what might still be better is the
    outcome's ``rest``. ``thorough``: a layout whose turn was over before it was done with has
    another one, for as long as there is time.
    """
    started = time.monotonic()
    frontier = Frontier(
        families,
        costs_of,
        floor_seconds,
        lambda layout, costs: _choices(regimes_of(layout, costs), costs),
        inputs_kept,
        rough,
    )
    frontier.begin(FEW)
    state = State(
        costs_of=costs_of,
        regimes_of=regimes_of,
        relative_gap=relative_gap,
        deadline=started + time_limit_seconds,
        thorough=thorough,
        floor=floor_seconds,
        ceiling=ceiling_seconds,
        most_solved=math.inf if most_solved is None else most_solved,
        tell=progress,
        frontier=frontier,
    )
    return _run(state)


def _run(state: State) -> Outcome:
    """Go on while some layout might still be better, and time is left."""
    first, shared = state.frontier.estimates()
    if shared < first:
        try_shared(state)
    _prove(state)
    if shared >= first:
        try_shared(state)
        _prove(state)
    rest = hand_over(state) if state.is_enough() and not state.out_of_time() else ()
    return replace(outcome(state), rest=rest)


def _prove(state: State) -> None:
    while not state.out_of_time() and not state.is_enough():
        if state.frontier.bound < min(state.next_bound(), state.limit):
            open_member(state, *state.frontier.take())
        elif state.open and state.open[0].bound < state.limit:
            state.report()
            step(state, heappop(state.open))
        elif not (
            solve_again(state, cut_short=False)
            or release_variants(state)
            or (state.thorough and solve_again(state, cut_short=True))
        ):
            break


def _choices(regimes: Sequence[Regime], costs: PipelineCosts) -> Callable[[int], Choices] | None:
    """What blocks of a kind choose among where every plan is made in the same one way.

    None where recompute may hide, so that it is not simply added to a stage's work.
    """
    if len(regimes) != 1 or regimes[0].ahead:
        return None
    choices = regimes[0].choices
    if choices is not None:
        return lambda kind: choices(costs.blocks[kind])
    menu = regimes[0].menu(costs)
    return menu.frontiers.__getitem__ if type(menu) is FreeMenu else None
