"""Members of families with costs of their own, and their variants as far as they matter.

Variants of a layout, which shard states over fewer replicas, can be faster only by what
communication of states the first variant shows; unless that could make one the best they are not
looked at. Where that is much, all variants are bounded at once (``envelope.py``), and halved as
long as they might be better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappush

from solver.layouts import Layout
from solver.layouts.family import Family
from solver.search.bound import first_bounds
from solver.search.entries import Head, Open
from solver.search.envelope import Variant, envelope, enveloped, halves, leaders
from solver.search.outcome import Stage
from solver.search.state import State
from solver.search.variants import gain, no_better

WORTH, LIKELY = 0.01, 2.0
"""Variants are bounded at once where they might gain this share of the bound, and plans are likely
to be within that multiple of it."""


def open_member(
    state: State, family: Family, position: int, bound: float, place: tuple[int, int]
) -> None:
    """Enter a member with costs of its own: the first variant of each rank order.

    A rank order in which nothing takes less time follows from the one before.
    """
    state.families[place[0]] = family
    by_order: dict[str, list[tuple[int, Layout]]] = {}
    for numbered in enumerate(family.variants(position)):
        by_order.setdefault(numbered[1].rank_order, []).append(numbered)
    heads: list[Head] = []
    for number, variants in enumerate(by_order.values()):
        (at, first), *others = variants
        costs = state.costs_of(first)
        leading = next((head for head in heads if no_better(costs, head.costs)), None)
        if leading is not None:
            leading.others += tuple(variants)
            continue
        heads.append(Head((*place, number, at), first, tuple(others), bound, costs))
    for head in heads:
        together = _together(state, head)
        if together:
            _enter_half(state, head.place[:-1], together, bound)
        else:
            state.heads.append(head)
            enter(state, head)


def _together(state: State, head: Head) -> list[Variant]:
    """All variants of a head, where it pays to bound them at once; else none."""
    alone = head.layout.virtual_stages == 1
    longest = min(state.best, LIKELY * head.floor) if alone else math.inf
    surpassed = gain(head.costs, longest=longest)
    if not head.others or head.costs.devices or surpassed < WORTH * head.floor:
        return []
    if len(state.regimes_of(head.layout, head.costs)) != 1:
        return []
    own = Variant(head.place[-1], head.layout, head.costs)
    others = [Variant(at, layout, state.costs_of(layout)) for at, layout in head.others]
    found = leaders([own, *others])
    return found if enveloped(found) else []


def _enter_half(
    state: State, place: tuple[int, ...], variants: Sequence[Variant], floor: float
) -> None:
    """Enter variants by their envelope, or the only one as it is."""
    first, *rest = variants
    others = first.followers
    for one in rest:
        others += ((one.number, one.layout), *one.followers)
    costs = envelope(variants) if rest else first.costs
    head = Head((*place, first.number), first.layout, others, floor, costs, gain=0.0)
    head.together = tuple(variants) if rest else ()
    state.heads.append(head)
    enter(state, head)


def halve(state: State, entry: Open) -> None:
    """Bound the variants of an envelope more tightly."""
    state.heads.remove(entry.head)
    for half in halves(entry.head.together):
        _enter_half(state, entry.place[:-1], half, entry.bound)


def enter(state: State, head: Head, to: list[Open] | None = None) -> None:
    """Enter a head among what is in question, or in another list, by its first own bounds."""
    layout, costs = head.layout, head.costs
    head.open += 1
    passes, work, bubble = first_bounds(layout, costs)
    head.floor = max(head.floor, passes)
    quick = max(head.floor, work)
    bound = max(quick, bubble)
    stage = Stage.WORK if quick >= bound else Stage.BUBBLE
    entry = Open(bound, head.place, 0, layout, costs, head, stage)
    if to is None:
        heappush(state.open, entry)
    else:
        to.append(entry)


def release_variants(state: State) -> bool:
    """Enter the variants that could still be better than the best plan; whether there are."""
    released = False
    under_way = state.under_way()
    waiting = {entry.head for entry in state.loose}
    for head in list(state.heads):
        if head in waiting:
            continue
        if head.others and not head.shared and state.inherited(head, under_way) < state.limit:
            released |= _release(state, head, min(head.lower, under_way.get(head, math.inf)))
    return released


def _release(state: State, head: Head, lower: float) -> bool:
    """Look at the other variants of a member one by one, and enter those that may be better."""
    variants, head.others, head.gain = head.others, (), 0.0
    heads = [head]
    for number, layout in variants:
        costs = state.costs_of(layout)
        leading = next((known for known in heads if no_better(costs, known.costs)), None)
        surpassed = gain(head.costs, costs, longest=state.longest(layout))
        floor = max(lower - surpassed, head.floor)
        if leading is not None:
            leading.others += ((number, layout),)
        elif floor >= state.limit:
            head.others += ((number, layout),)
            head.gain = max(head.gain, surpassed)
        else:
            place = (*head.place[:-1], number)
            heads.append(Head(place, layout, (), floor, costs, gain=0.0))
            enter(state, heads[-1])
    state.heads += heads[1:]
    return len(heads) > 1
