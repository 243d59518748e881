"""Layouts whose stages share devices, where they are many: only some are tried.

Their bounds are weak, so those few are chosen by an estimate before all others; the rest stays in
the proof with its bound, and so in the gap.
"""

from __future__ import annotations

import math
from collections import Counter

from solver.partition.problem import menu_on, partition_problem
from solver.partition.regime import Regime
from solver.partition.shared import SharedProblem
from solver.search.entries import End, Head, Open
from solver.search.heads import enter
from solver.search.state import State
from solver.search.steps import schedule_of, solve

ESTIMATED, TRIED, IMPROVED = 16, 2, 1
"""How many of each schedule get costs of their own, how many of these a first plan, and how many of
all a better one."""

MOST_PLANS = 200
"""Plans that are compared to make such a layout's plan better."""


def try_shared(state: State) -> None:
    """Plans for the most promising of the layouts that share devices, where they are many.

    Where none of these fits, others are tried until one does.
    """
    _try_promising(state)
    while state.found is None and state.aside and not state.out_of_time():
        for entry in [entry for entry in state.aside if entry.place not in state.begun]:
            if state.found is None and not state.out_of_time():
                _solve_first(state, entry)
        _keep_untried(state)
        _try_promising(state)


def _try_promising(state: State) -> None:
    """The most promising of those not taken yet: some get a first plan, the best a better one."""
    entered: list[Open] = []
    guesses: dict[Head, float] = {}
    promising = state.frontier.promising(ESTIMATED, state.best)
    for family, position, bound, place, guess in promising:
        state.families[place[0]] = family
        first = family.variants(position)[0]
        costs = state.costs_of(first)
        others = tuple(enumerate(family.variants(position)))[1:]
        head = Head((*place, 0, 0), first, others, bound, costs, shared=True)
        state.heads.append(head)
        enter(state, head, entered)
        # Costs of its own add sends and their share in every pass to the guess.
        guesses[head] = guess + entered[-1].bound - bound
    entered.sort(key=lambda entry: (guesses[entry.head], entry.place))
    state.aside += entered
    entries = []
    for entry in _first_of_each(entered):
        regimes = state.regimes_of(entry.layout, entry.costs)
        if regimes and not state.out_of_time():
            entries.append(_with_first_plan(state, entry, regimes[0]))
    made = [(made, entry) for made, entry in entries if made is not None]
    made.sort(key=lambda pair: (pair[0], pair[1].place))
    for _, entry in made[:IMPROVED]:
        if not state.out_of_time():
            _improve(state, entry)
    _keep_untried(state)


def _keep_untried(state: State) -> None:
    state.aside = [entry for entry in state.aside if entry.place not in state.begun]


def _solve_first(state: State, entry: Open) -> None:
    """Solve a layout under the regime that needs least memory; without one it cannot be made."""
    regimes = state.regimes_of(entry.layout, entry.costs)
    if not regimes:
        state.begun.add(entry.place)
        state.end(entry, End.INFEASIBLE, math.inf)
        return
    if entry.problem is None:
        _with_first_plan(state, entry, regimes[0])
    if entry.place not in state.begun:
        _improve(state, entry)


def _with_first_plan(state: State, entry: Open, regime: Regime) -> tuple[float | None, Open]:
    """A quick plan of a layout, and what its bound comes to with the cuts in it."""
    entry.costs = regime.costs or entry.costs
    schedule = schedule_of(entry.layout, entry.costs, regime)
    entry.regime, entry.menu = regime, menu_on(regime.menu(entry.costs), schedule)
    entry.problem = partition_problem(entry.costs, entry.menu, schedule, regime)
    entry.bound = max(entry.bound, entry.problem.bound)
    if isinstance(entry.problem, SharedProblem):
        return entry.problem.first_makespan(), entry
    _improve(state, entry)
    return None, entry


def _improve(state: State, entry: Open) -> None:
    assert entry.problem is not None
    assert entry.regime is not None
    state.report()
    if isinstance(entry.problem, SharedProblem):
        entry.problem.most_plans = MOST_PLANS
    solve(state, entry, entry.problem, entry.menu, entry.regime)


def _first_of_each(entries: list[Open]) -> list[Open]:
    """The first few of every schedule, in their order."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        seen[entry.layout.schedule] += 1
        if seen[entry.layout.schedule] <= TRIED:
            found.append(entry)
    return found
