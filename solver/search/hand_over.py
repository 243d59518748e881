"""The members that a search leaves to others, because it has solved enough."""

from __future__ import annotations

import math
from heapq import heapify

from solver.layouts.family import Family, listed
from solver.search.entries import Open
from solver.search.state import State
from solver.search.steps import solve_again, step


def hand_over(state: State) -> tuple[tuple[Family, int], ...]:
    """The members that might still be better, least bound first.

    They leave this search with all their variants, whatever was found out about them.
    """
    _settle_winner(state)
    while solve_again(state, cut_short=True):
        _settle_winner(state)
    under_way = state.under_way()
    bounds: dict[tuple[int, int], float] = {}
    for entry in (*state.open, *state.aside):
        if not _leads(state, entry):
            _lower(bounds, entry.place, entry.bound)
    for head in state.heads:
        if head.others and not head.shared:
            _lower(bounds, head.place, state.inherited(head, under_way))
    handed = {place: bound for place, bound in bounds.items() if bound < state.limit}
    while state.frontier.bound < state.limit:
        family, _, bound, place = state.frontier.take()
        state.families[place[0]] = family
        handed[place] = bound
    _leave(state, set(handed))
    order = sorted(handed, key=lambda place: (handed[place], place))
    return tuple(
        each
        for number, position in order
        for each in _without_winner(state, state.families[number], position)
    )


def _settle_winner(state: State) -> None:
    """Go on with the winner's layout until no other regime of it might be better.

    The winner stays in this search, so that nobody else looks at its other regimes.
    """
    while not state.out_of_time():
        entry = min((entry for entry in state.open if _leads(state, entry)), default=None)
        if entry is None or entry.bound >= state.limit:
            return
        state.open.remove(entry)
        heapify(state.open)
        step(state, entry)


def _leads(state: State, entry: Open) -> bool:
    """Whether it is the winner's layout, under whichever regime."""
    return state.leader is not None and entry.place == state.leader.place


def _without_winner(state: State, family: Family, position: int) -> list[tuple[Family, int]]:
    """A member, or if the winner is one of its variants the others one by one."""
    variants = family.variants(position)
    known = state.found.layout if state.found else None
    if known not in variants:
        return [(family, position)]
    others = [variant for variant in variants if variant != known]
    counts = [int(family.micro_batches[position])] * len(others)
    return [(alone, 0) for alone in listed(others, counts)]


def _leave(state: State, members: set[tuple[int, int]]) -> None:
    """Forget all about some members, the winner apart."""

    def stays(entry: Open) -> bool:
        return entry.place[:2] not in members or _leads(state, entry)

    state.open = list(filter(stays, state.open))
    heapify(state.open)
    state.aside = list(filter(stays, state.aside))
    state.heads = [head for head in state.heads if head.place[:2] not in members]
    state.losers = [each for each in state.losers if each[0][:2] not in members]
    gone = {place for place in (*state.begun, *state.ends) if place[:2] in members}
    if state.leader is not None:
        gone.discard(state.leader.place)
    state.begun -= gone
    state.ends = {place: ends for place, ends in state.ends.items() if place not in gone}


def _lower(bounds: dict[tuple[int, int], float], place: tuple[int, ...], bound: float) -> None:
    """Let a bound of the member at a place count."""
    member = (place[0], place[1])
    bounds[member] = min(bound, bounds.get(member, math.inf))
