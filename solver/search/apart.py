"""Layouts whose stages share devices, where they are many: only some are tried.

Their bounds are weak, so those few are chosen by an estimate before all others; the rest stays in
the proof with its bound, and so in the gap.
"""

from __future__ import annotations

from collections import Counter

from solver.partition.problem import menu_on, partition_problem
from solver.partition.shared import SharedProblem
from solver.search.entries import Head, Open
from solver.search.heads import enter
from solver.search.state import State
from solver.search.steps import divided, schedule_of, solve

ESTIMATED, TRIED, IMPROVED = 16, 2, 1
"""How many of each schedule get costs of their own, how many of these a first plan, and how many of
all a better one, whatever the regime."""

WAYS = 2
"""Regimes of a layout that get plans: with offload off and on, with windows and without."""


def try_shared(state: State) -> None:
    """Plans for the most promising of the layouts that share devices, where they are many.

    Where none of these fits, others are tried until one does.
    """
    _try_promising(state)
    while state.found is None and state.aside and not state.out_of_time():
        while state.found is None and state.aside and not state.out_of_time():
            for entry in _ways(state, state.aside[0]):
                if state.found is None and not state.out_of_time():
                    _solve_first(state, entry)
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
    made: list[tuple[float, Open]] = []
    for layout in _first_of_each(entered):
        if state.out_of_time():
            break
        for entry in _ways(state, layout)[:WAYS]:
            first_plan = _first_plan(state, entry)
            if first_plan is not None:
                made.append((first_plan, entry))
    made.sort(key=lambda pair: (pair[0], pair[1].place, pair[1].number))
    best = {entry.place for _, entry in made[:IMPROVED]}
    for _, entry in made:
        if entry.place in best and not state.out_of_time():
            _improve(state, entry)


def _ways(state: State, layout: Open) -> list[Open]:
    """A layout that is aside, divided into its regimes: each is aside, with a bound of its own."""
    if layout.regime is not None:
        return [layout]
    _take(state, layout)
    found = divided(state, layout)
    state.aside += found
    return found


def _take(state: State, entry: Open) -> None:
    state.aside = [other for other in state.aside if other is not entry]


def _solve_first(state: State, entry: Open) -> None:
    """Solve a layout under one regime."""
    if entry.problem is None:
        _first_plan(state, entry)
    if any(other is entry for other in state.aside):
        _improve(state, entry)


def _first_plan(state: State, entry: Open) -> float | None:
    """A quick plan of a layout, and what its bound comes to with the cuts in it.

    None where there is none, or the layout is solved as quickly.
    """
    assert entry.regime is not None
    schedule = schedule_of(entry.layout, entry.costs, entry.regime)
    entry.menu = menu_on(entry.regime.menu(entry.costs), schedule)
    entry.problem = partition_problem(entry.costs, entry.menu, schedule, entry.regime)
    entry.bound = max(entry.bound, entry.problem.bound)
    if isinstance(entry.problem, SharedProblem):
        return entry.problem.first_makespan()
    _improve(state, entry)
    return None


def _improve(state: State, entry: Open) -> None:
    assert entry.problem is not None
    assert entry.regime is not None
    state.report()
    _take(state, entry)
    if isinstance(entry.problem, SharedProblem):
        entry.problem.only_quickly = True
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
