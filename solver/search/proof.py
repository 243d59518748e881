"""How a search ends: what became of every layout, and what is proved of all."""

from __future__ import annotations

import math
import time
from collections import Counter

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout
from solver.partition.outcome import Infeasible
from solver.partition.problem import Problem, menu_on, partition_problem
from solver.partition.regime import Regime
from solver.search.choice_bounds import ChoiceBounds
from solver.search.entries import End, Head, Open, ending
from solver.search.outcome import Loser, Outcome, Stage
from solver.search.state import State
from solver.search.steps import conclude, schedule_of

SHOWN = 16
"""Layouts that were not looked at one by one of which the bound is told."""

MOST_MISFITS = 16
"""Layouts that cannot fit among which the one that misses least is looked for."""


def outcome(state: State) -> Outcome:
    """End a search: everything open, and the counts and bounds of the proof."""
    misfits = _close_open(state)
    for entry in state.loose:
        conclude(state, entry)
    if state.leader is not None:
        state.end(state.leader, End.SOLVED, state.leader.bound)
    pruned_by, infeasible, unfinished, (least, by_bound) = state.frontier.ends(state.limit)
    pruned_by[Stage.MEMORY] = infeasible
    state.proved = min(state.proved, least)
    state.by_bound = min(state.by_bound, by_bound)
    of_choices = ChoiceBounds()
    state.frontier.add_to(of_choices)
    for head, lower in _close_variants(state, pruned_by):
        how = ending(lower, state.limit)
        infeasible += len(head.others) * (how is End.INFEASIBLE)
        unfinished += len(head.others) * (how is End.UNFINISHED)
        state.proved = min(state.proved, lower)
        if not head.shared:
            state.by_bound = min(state.by_bound, lower)
        for _, layout in head.others:
            of_choices.add(layout, lower)
    for ends in state.ends.values():
        how, stage = max(ends)
        infeasible += how is End.INFEASIBLE
        unfinished += how is End.UNFINISHED
        pruned_by[stage] += how is End.PRUNED
    lower = state.proved
    if state.leader is not None:
        lower = min(lower, state.leader.bound)
        of_choices.add(state.leader.layout, state.leader.bound)
    elif not unfinished and math.isinf(state.ceiling):
        _find_nearest(state, misfits)
    for _, loser in state.losers:
        of_choices.add(loser.layout, loser.lower_bound)
    return Outcome(
        found=state.found,
        lower_bound=lower,
        by_bound=state.by_bound,
        nearest=state.nearest,
        considered=state.frontier.considered,
        pruned=pruned_by.total() - pruned_by[Stage.MEMORY],
        infeasible=infeasible,
        unfinished=unfinished,
        losers=_losing_layouts(state),
        pruned_by={stage: pruned_by[stage] for stage in Stage},
        least=of_choices.least(),
        solved=len(state.begun),
    )


def _close_open(state: State) -> list[Open]:
    """End what is still open; of it, what cannot fit."""
    misfits = []
    for entry in (*state.open, *state.aside):
        how = ending(entry.bound, state.limit)
        state.end(entry, how, entry.bound)
        if how is End.INFEASIBLE:
            misfits.append(entry)
        else:
            loser = Loser(entry.layout, None, entry.bound)
            state.lose(entry.place, loser, entry.head.shared)
    state.open, state.aside = [], []
    return misfits


def _close_variants(state: State, pruned_by: Counter[Stage]) -> list[tuple[Head, float]]:
    """The members whose other variants were never looked at, with what is proved of those."""
    found = []
    for head in state.heads:
        if head.others:
            lower = state.inherited(head, {})
            if ending(lower, state.limit) is End.PRUNED:
                _, stage = max(state.ends[head.place])
                pruned_by[stage] += len(head.others)
            found.append((head, lower))
    return found


def _losing_layouts(state: State) -> tuple[Loser, ...]:
    """What became of every layout but the winner's, over all its regimes, best first."""
    of_layout: dict[tuple[int, ...], list[Loser]] = {}
    for place, loser in state.losers:
        if state.leader is None or place != state.leader.place:
            of_layout.setdefault(place, []).append(loser)
    losers = [_together(losers) for losers in of_layout.values()]
    losers += [Loser(layout, None, bound) for layout, bound in state.frontier.nearest(SHOWN)]
    return tuple(sorted(losers, key=standing))


def _find_nearest(state: State, misfits: list[Open]) -> None:
    """Of the layouts that cannot fit, the one that misses least memory.

    Those whose cuts were tried missed less than those that could be told at once.
    """
    first = [entry for entry in misfits if entry.number == 0 or _has_own_costs(entry.regime)]
    for entry in sorted(first, key=lambda entry: entry.place)[:MOST_MISFITS]:
        if _is_late(state):
            return
        _miss(state, entry.layout, entry.costs, entry.problem)
    if state.nearest is None:
        for layout in state.frontier.misfits(MOST_MISFITS):
            if _is_late(state):
                return
            _miss(state, layout, state.costs_of(layout), None)


def _miss(state: State, layout: Layout, costs: PipelineCosts, problem: Problem | None) -> None:
    if problem is None:
        regimes = state.regimes_of(layout, costs)
        if not regimes:
            return
        # What offloads needs least memory, though it is tried last.
        regime = next(filter(_has_own_costs, regimes), regimes[0])
        costs = regime.costs or costs
        schedule = schedule_of(layout, costs, regime)
        menu = menu_on(regime.menu(costs), schedule)
        problem = partition_problem(costs, menu, schedule, regime)
    result = problem.solve(time_limit_seconds=max(state.deadline - time.monotonic(), 1.0))
    if isinstance(result, Infeasible):
        state.nearer(layout, result)


def _is_late(state: State) -> bool:
    """Whether one layout that does not fit has to do, for time is over."""
    return state.nearest is not None and time.monotonic() >= state.deadline


def _has_own_costs(regime: Regime | None) -> bool:
    return regime is not None and regime.costs is not None


def _together(losers: list[Loser]) -> Loser:
    """One layout's regimes: the best plan made under any, and the bound of all."""
    made = [loser.makespan for loser in losers if loser.makespan is not None]
    lower = min(loser.lower_bound for loser in losers)
    return Loser(losers[0].layout, min(made, default=None), lower)


def standing(loser: Loser) -> tuple[float, bool, Layout]:
    """Order of losers: by time, or by bound where no plan was made."""
    known = loser.makespan is not None
    return (
        loser.makespan if loser.makespan is not None else loser.lower_bound,
        known,
        loser.layout,
    )
