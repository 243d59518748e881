"""The placements of a block between its neighbours, remembered.

What a block may do depends on its own windows, on those that the following block lends it, and on
who else may want them (``lending.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from solver.costs.pipeline import Block, Overlapping, PipelineCosts
from solver.recompute.fill import ROUNDING, Fill
from solver.recompute.frontier import MOST_LABELS
from solver.recompute.lending import Lending, lasting, lending, own_lasting
from solver.recompute.placements import Placements, Slots, joined, lent_by, placements
from solver.recompute.windows import Window, windows

Link = tuple[int, int | None]
"""A block's kind and the kind of the block that follows it on its stage; None: it is the last."""

MOST_EXACT = 400
"""Choices of a block, partial ones included, up to which all are looked at."""

MOST_WAYS = 50_000
"""Places to the power of ops beyond which windows that two blocks want are not looked at whole."""

MOST_UNTIED = 4_000
"""The same where no two blocks want a window."""


@lru_cache(maxsize=64)
def lendings(costs: PipelineCosts, links: tuple[Link, ...]) -> tuple[Lending, ...]:
    """Who has which windows of each kind of block."""
    return tuple(
        lending(block, _before(costs, kind, links), costs.overlapping)
        for kind, block in enumerate(costs.blocks)
    )


@lru_cache(maxsize=512)
def link_placements(
    costs: PipelineCosts, link: Link, links: tuple[Link, ...], *, gathers: bool
) -> Placements | None:
    """Every choice of a block that the following one (None: none) stands behind; None: too many.

    Uses, in the answer's ``own`` and ``following``, are of the contested windows only. ``gathers``:
    the stage recomputes ahead, so that all it rebuilds is alive at once.
    """
    shared_out = lendings(costs, links)
    return _between(
        costs, link, links, shared_out, shared_out, gathers=gathers, apart=gathers, ahead=gathers
    )


@lru_cache(maxsize=512)
def some_placements(
    costs: PipelineCosts, link: Link, links: tuple[Link, ...], *, gathers: bool
) -> tuple[Placements, Placements]:
    """Where they are too many, or tied to a neighbour's: some of them, and what bounds all of them.

    Some are those without windows of the following block, and those of least seconds whatever they
    hold early; a contested window is the block's own if it is the first, else lent. The others are
    as if nothing were held early, and a contested window endless for each block that wants it; or
    where that is too many still, as if windows were filled to the last second. ``gathers``: as
    ``link_placements``; what is held early is then no reason for the former.
    """
    shared_out = lendings(costs, links)
    given = tuple(one.given_away() for one in shared_out)
    kept_out = tuple(replace(one, own=()) for one in given)
    wide = tuple(one.endless() for one in shared_out)
    to_itself, (kind, following) = (link[0], None), link
    offload_bytes = _offload_bytes(costs, kind, ahead=gathers)
    plain = plain_placements(costs.blocks[kind], offload_bytes)
    alone = (
        _between(costs, to_itself, links, given, given, ahead=gathers)
        or _between(costs, to_itself, links, kept_out, given, ahead=gathers)
        or plain
    )
    how = {"gathers": True, "apart": gathers, "ahead": gathers}
    freely = (
        _between(costs, link, links, given, given, **how)
        or _between(costs, link, links, kept_out, given, **how)
        or plain
    )
    most = _between(costs, link, links, wide, wide, **how)
    if most is None:
        open_to = [costs.blocks[one] for one in (kind, following) if one is not None]
        filled = sum(w.seconds for block in open_to for w in windows(block, costs.overlapping))
        saved = max(1.0 - costs.overlapping.charge, 0.0) * filled
        most = replace(plain, seconds=np.maximum(plain.seconds - saved, 0.0))
    some = freely if gathers else joined(alone, freely)
    return some, replace(most, early=np.zeros(len(most.early)))


@lru_cache(maxsize=512)
def plain_placements(block: Block, offload_bytes: float = 0.0) -> Placements:
    """The choices of a block without windows."""
    slots = Slots((), (), (), offload_bytes=offload_bytes)
    found = placements(block, slots, 0.0, MOST_LABELS)
    assert found is not None, "the block's frontier was made before"
    return found


@lru_cache(maxsize=512)
def own_placements(
    block: Block, overlapping: Overlapping, *, ahead: bool = False, offload_bytes: float = 0.0
) -> Placements:
    """The choices of a block with its own windows to itself; none in them if they are too many.

    ``ahead``: of a block whose stage recomputes ahead of the gradient. ``offload_bytes``: what of
    it may wait in host memory.
    """
    if ahead and not overlapping.apart:
        return own_placements(block, overlapping)
    own = lending(block, (), overlapping).own
    fills = tuple(_Wanted.of(w, False, *_of_own(block, w)).fill for w in own)
    slots = Slots(
        (), own, fills, shared=(False,) * len(own), apart=ahead, offload_bytes=offload_bytes
    )
    found = placements(block, slots, overlapping.charge, MOST_UNTIED)
    return plain_placements(block, offload_bytes) if found is None else found


def _offload_bytes(costs: PipelineCosts, kind: int, *, ahead: bool) -> float:
    """What of a kind may wait in host memory: ahead of the gradient nothing does."""
    return costs.offload_bytes[kind] if costs.offload_bytes and not ahead else 0.0


def _of_own(block: Block, window: Window) -> tuple[tuple[float, ...], float]:
    durations = own_lasting(block, window)
    return durations, sum(durations)


def _between(
    costs: PipelineCosts,
    link: Link,
    links: tuple[Link, ...],
    own_of: tuple[Lending, ...],
    lent_of: tuple[Lending, ...],
    *,
    gathers: bool = False,
    apart: bool = False,
    ahead: bool = False,
) -> Placements | None:
    """The placements where ``own_of`` says which windows are own, ``lent_of`` which are lent."""
    kind, following = link
    mine = own_of[kind]
    theirs = Lending((), (), ()) if following is None else lent_of[following]
    users = () if following is None else _before(costs, following, links)
    lent = tuple(
        _Wanted.of(w, w in theirs.contested, *_claims(costs.blocks[following], w, theirs, users))
        for w in theirs.lent
        if following is not None
    )
    before = _before(costs, kind, links)
    own = tuple(
        _Wanted.of(w, w in mine.contested, *_claims(costs.blocks[kind], w, mine, before))
        for w in mine.own
    )
    made = _walked(
        costs.blocks[kind],
        tuple(replace(wanted, window=Window("", -1, wanted.window.seconds)) for wanted in lent),
        own,
        costs.overlapping,
        gathers and bool(lent),
        apart and bool(lent or own),
        _offload_bytes(costs, kind, ahead=ahead),
    )
    if made is None:
        return None
    return replace(
        lent_by(made, tuple(wanted.window for wanted in lent)),
        own=made.own[:, [wanted.shared for wanted in own]],
        following=made.following[:, [wanted.shared for wanted in lent]],
    )


@dataclass(frozen=True)
class _Wanted:
    """A window, whether two blocks want it, and then the durations of all that may stand in it.

    A window with room for everything is endless, and nothing need be told of what stands in it.
    """

    window: Window
    shared: bool
    durations: tuple[float, ...]

    @classmethod
    def of(cls, window: Window, shared: bool, durations: tuple[float, ...], most: float) -> _Wanted:
        if most <= window.seconds * (1 + ROUNDING):
            return cls(replace(window, seconds=np.inf), shared, ())
        return cls(window, shared, durations if shared else ())

    @property
    def fill(self) -> Fill:
        if np.isinf(self.window.seconds):
            return Fill.roomy(self.window.seconds)
        if not self.shared:  # the block's own ops tell uses apart (``placements``)
            return Fill(self.window.seconds, np.zeros(0))
        return Fill.of(self.window.seconds, self.durations)


def _claims(
    block: Block, window: Window, shared_out: Lending, before: Sequence[Block]
) -> tuple[tuple[float, ...], float]:
    """The durations of what may ever stand in a window, and the most that they come to at once."""
    own = own_lasting(block, window) if window in shared_out.own else ()
    ahead = [lasting(one) for one in before] if window in shared_out.lent else []
    together = (*own, *(seconds for one in ahead for seconds in one))
    return together, sum(own) + max((sum(one) for one in ahead), default=0.0)


def _before(costs: PipelineCosts, kind: int, links: Sequence[Link]) -> tuple[Block, ...]:
    """The blocks that may stand before a kind."""
    return tuple(costs.blocks[before] for before, after in links if after == kind)


@lru_cache(maxsize=512)
def _walked(
    block: Block,
    lent: tuple[_Wanted, ...],
    own: tuple[_Wanted, ...],
    overlapping: Overlapping,
    gathers: bool,
    apart: bool,
    offload_bytes: float,
) -> Placements | None:
    wanted = (*lent, *own)
    if not wanted:
        return plain_placements(block, offload_bytes)
    tied = any(one.shared for one in wanted)
    if tied and (1 + len(wanted)) ** len(lasting(block)) > MOST_WAYS:
        return None
    slots = Slots(
        following=tuple(one.window for one in lent),
        own=tuple(one.window for one in own),
        fills=tuple(one.fill for one in wanted),
        shared=tuple(one.shared for one in wanted),
        apart=apart and overlapping.apart,
        gathers=gathers,
        offload_bytes=offload_bytes,
    )
    return placements(block, slots, overlapping.charge, MOST_EXACT if tied else MOST_UNTIED)
