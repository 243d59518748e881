"""Ways to give every window to one block as a whole, and what a block gains from windows at best.

Where a window belongs to one block, blocks are no longer tied together, and each has a frontier of
its own. A block that lends windows sets aside memory for what the block before it places there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solver.costs.pipeline import PipelineCosts
from solver.recompute.dominance import undominated_rows
from solver.recompute.frontier import Frontier
from solver.recompute.placed import Link, placements_in, unshared_placements
from solver.recompute.placements import Placements
from solver.recompute.windows import Window, placeable, windows


@dataclass(frozen=True, eq=False)
class WindowShare:
    """Who has which window, and the frontier of every link then."""

    lent: tuple[frozenset[str], ...]
    frontiers: tuple[Frontier, ...]


def shares(costs: PipelineCosts, links: tuple[Link, ...], *, gathers: bool) -> list[WindowShare]:
    """Windows kept by all blocks; lent where their own has nothing to place; lent by all.

    ``gathers``: all that a stage rebuilds is alive at once, what is placed early included.
    """
    none = tuple(frozenset[str]() for _ in costs.blocks)
    idle = tuple(frozenset(_of_little_use(costs, kind)) for kind in range(len(costs.blocks)))
    every = tuple(
        frozenset(window.op for window in windows(block, costs.overlapping))
        for block in costs.blocks
    )
    ways = dict.fromkeys((none, idle, every))
    return [_share(costs, links, lent, gathers=gathers) for lent in ways]


def _share(
    costs: PipelineCosts,
    links: tuple[Link, ...],
    lent: tuple[frozenset[str], ...],
    *,
    gathers: bool,
) -> WindowShare:
    apart = gathers and costs.overlapping.apart
    found = [_placements(costs, link, lent, apart=apart) for link in links]
    early = [0.0] * len(costs.blocks)
    for (_, following), made in zip(links, found, strict=True):
        if following is not None and not gathers:
            early[following] = max(early[following], float(made.early.max()))
    return WindowShare(
        lent,
        tuple(_frontier(made, early[kind]) for (kind, _), made in zip(links, found, strict=True)),
    )


def _placements(
    costs: PipelineCosts, link: Link, lent: tuple[frozenset[str], ...], *, apart: bool
) -> Placements:
    kind, following = link
    own = [w for w in windows(costs.blocks[kind], costs.overlapping) if w.op not in lent[kind]]
    ahead: list[Window] = []
    if following is not None:
        theirs = windows(costs.blocks[following], costs.overlapping)
        ahead = [window for window in theirs if window.op in lent[following]]
    return placements_in(
        costs.blocks[kind], tuple(own), tuple(ahead), costs.overlapping, apart=apart
    )


def _of_little_use(costs: PipelineCosts, kind: int) -> list[str]:
    """Windows of a block that none of its own tensors can be placed in."""
    block, names = costs.blocks[kind], placeable(costs.blocks[kind])
    found = []
    for window in windows(block, costs.overlapping):
        read = {name for op in block.ops[window.position :] for name in op.backward_reads}
        if not names - read:
            found.append(window.op)
    return found


def _frontier(made: Placements, early: float) -> Frontier:
    """A frontier whose working memory includes what the block before may place here."""
    return Frontier(made.choices, made.kept, made.seconds, made.rebuilt + early)


def unshared(costs: PipelineCosts, link: Link) -> Frontier:
    """What a block does at best if it had its own and the following block's windows to itself."""
    kind, following = link
    block, overlapping = costs.blocks[kind], costs.overlapping
    own = windows(block, overlapping)
    room = sum(window.seconds for window in own)
    behind = max((window.position for window in own), default=-1)
    if following is not None:
        theirs = windows(costs.blocks[following], overlapping)
        room += sum(window.seconds for window in theirs)
        behind = len(block.ops) if theirs else behind
    made = unshared_placements(block, behind, overlapping)
    worth = max(1.0 - overlapping.charge, 0.0)
    seconds = np.maximum(made.seconds, made.seconds + worth * (made.own[:, 0] - room))
    return _undominated(replace(made, seconds=seconds))


def _undominated(made: Placements) -> Frontier:
    """The choices left when what they hide no longer counts."""
    columns = [made.kept, made.seconds, made.kept + made.rebuilt]
    rows = np.sort(undominated_rows(np.stack(columns, axis=1)))
    choices = tuple(made.choices[row] for row in rows.tolist())
    return Frontier(choices, made.kept[rows], made.seconds[rows], made.rebuilt[rows])
