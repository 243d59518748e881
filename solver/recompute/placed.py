"""The placements of a block between its neighbours, remembered: all, or those of few windows."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import numpy as np

from solver.costs.pipeline import Block, Overlapping, PipelineCosts
from solver.recompute.fill import Fill
from solver.recompute.placements import Placements, Slots, placements
from solver.recompute.windows import Window, placeable, windows

Link = tuple[int, int | None]
"""A block's kind and the kind of the block that follows it on its stage; None: it is the last."""

MOST_EXACT = 400
"""Choices of a block, partial ones included, up to which all are looked at."""

MOST_WAYS = 50_000
"""Places to the power of ops beyond which a block is not tried to be looked at whole."""

MOST_ALONE = 600
"""The same where no other block wants the windows."""

MOST_COARSE = 1_500
"""The same where besides windows are counted in steps."""

STEPS = (0, 8, 4, 1)
"""Steps of a window, tried in turn until the choices are few enough; 0: as many as matter."""


def exact_placements(
    costs: PipelineCosts, link: Link, links: Collection[Link], *, apart: bool
) -> Placements | None:
    """Every choice of a block that the following one (None: none) stands behind.

    Windows are shared with whatever may stand before or behind, as ``links`` says. ``apart``: as
    ``Slots``.
    """
    kind, following = link
    return _exact(
        costs.blocks[kind],
        None if following is None else costs.blocks[following],
        _before(costs, kind, links),
        () if following is None else _before(costs, following, links),
        costs.overlapping,
        apart,
    )


def _before(costs: PipelineCosts, kind: int, links: Collection[Link]) -> tuple[Block, ...]:
    """The blocks that may place something in a kind's windows: its own kind, and those before."""
    kinds = [kind, *(before for before, after in links if after == kind and before != kind)]
    return tuple(costs.blocks[k] for k in kinds)


@lru_cache(maxsize=512)
def _exact(
    block: Block,
    following: Block | None,
    users: tuple[Block, ...],
    following_users: tuple[Block, ...],
    overlapping: Overlapping,
    apart: bool,
) -> Placements | None:
    own = windows(block, overlapping)
    lent = () if following is None else windows(following, overlapping)
    if (1 + len(own) + len(lent)) ** len(_lasting(block)) > MOST_WAYS:
        return None
    fills = [_fill(window, following_users) for window in lent]
    fills += [_fill(window, users) for window in own]
    slots = Slots(lent, own, tuple(fills), apart=apart)
    return placements(block, slots, overlapping.charge, MOST_EXACT)


def _fill(window: Window, users: tuple[Block, ...]) -> Fill:
    return Fill.of(window.seconds, [seconds for block in users for seconds in _lasting(block)])


@lru_cache(maxsize=512)
def _lasting(block: Block) -> tuple[float, ...]:
    """Seconds of the ops that may be placed in windows."""
    names = placeable(block)
    return tuple(op.forward_seconds for op in block.ops if op.name in names)


@lru_cache(maxsize=512)
def placements_in(
    block: Block,
    own: tuple[Window, ...],
    following: tuple[Window, ...],
    overlapping: Overlapping,
    *,
    apart: bool = False,
) -> Placements:
    """The choices of a block that has these windows to itself, as finely as is cheap."""
    shortest = min((s for s in _lasting(block) if s > 0), default=np.inf)
    own = tuple(window for window in own if window.seconds >= shortest)
    following = tuple(window for window in following if window.seconds >= shortest)
    for steps in STEPS:
        fills = tuple(
            Fill(window.seconds, np.zeros(0), steps) if steps else _fill(window, (block,))
            for window in (*following, *own)
        )
        slots = Slots(following, own, fills, shared=False, apart=apart)
        most = MOST_COARSE if steps else MOST_ALONE
        found = placements(block, slots, overlapping.charge, most)
        if found is not None:
            return found
    found = placements(block, Slots((), (), ()), overlapping.charge, 10**9)
    assert found is not None
    return found


@lru_cache(maxsize=512)
def unshared_placements(block: Block, behind: int, overlapping: Overlapping) -> Placements:
    """The choices of a block beside which one endless window lies, bounded.

    ``behind``: position from which on its readers must stand before the window. Each choice is
    one of a relaxation: of two that differ in what is hidden, either may be the better one.
    """
    endless = Window("", behind, np.inf)
    slots = Slots((), (endless,), (Fill(np.inf, np.zeros(0)),), relaxed=True)
    found = placements(block, slots, overlapping.charge, 10**9)
    assert found is not None
    return found
