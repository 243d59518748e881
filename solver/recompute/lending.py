"""Who places what in which window of a block: the block itself, or the one before it.

Two blocks may want a window: the block that it belongs to, and the one before it in the model,
whose backward comes next. Often nothing is lost if each window is one block's alone:

- A window with room for all that may ever stand in it (a *roomy* one) never says no.
- What a block places in windows of the following one may all stand in one of them, if it is roomy:
  the tensors are held equally long, and find each other there.
- What a block places in its own windows may all move to an earlier one, if that is roomy: it comes
  before as many readers, and more.

Only where that leaves a window to both is it *contested*, and neighbouring blocks are tied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from solver.costs.pipeline import Block, Overlapping
from solver.recompute.fill import ROUNDING
from solver.recompute.windows import Window, placeable, windows


@dataclass(frozen=True)
class Lending:
    """The windows of one block: those that it uses, and those that the block before it uses.

    Both are in the order of backward; those in both are contested, unless there is room for all.
    """

    own: tuple[Window, ...]
    lent: tuple[Window, ...]
    contested: tuple[Window, ...]

    def given_away(self) -> Lending:
        """No window contested: the first of those is the block's own, the others are lent."""
        if not self.contested:
            return self
        first, *others = self.contested
        own = tuple(window for window in self.own if window not in others)
        return Lending(own, tuple(window for window in self.lent if window != first), ())

    def endless(self) -> Lending:
        """No window contested: as if the first of those had room for all that anybody wants."""
        if not self.contested:
            return self
        wide = (replace(self.contested[0], seconds=math.inf),)
        return Lending(wide, wide, ())


def lending(block: Block, before: Sequence[Block], overlapping: Overlapping) -> Lending:
    """The windows of a block, shared out without loss as far as that goes.

    Args:
        block: Whose windows these are.
        before: The blocks that may stand before it on a stage.
        overlapping: What computing beside a collective costs.
    """
    return _Sharing(block, before, overlapping).shared_out()


class _Sharing:
    """What may stand in each window of a block: seconds of its own ops, of the block before."""

    def __init__(self, block: Block, before: Sequence[Block], overlapping: Overlapping) -> None:
        self._own = {window: _own_seconds(block, window) for window in windows(block, overlapping)}
        ahead = [lasting(one) for one in before]
        self._before = max((sum(seconds) for seconds in ahead), default=0.0)
        self._shortest = min((s for seconds in ahead for s in seconds if s > 0), default=None)

    def shared_out(self) -> Lending:
        own = [window for window in self._own if self._useful(window)]
        lent = [window for window in self._own if self._takes_ahead(window)]
        used = self._first_roomy(own)
        for window in lent:
            if _roomy(window, sum(self._own[window]) + self._before):
                return Lending(tuple(used), (window,), ())
        for window in lent:
            if window not in used and _roomy(window, self._before):
                return Lending(tuple(used), (window,), ())
        if not set(used).intersection(lent):
            return Lending(tuple(used), tuple(lent), ())
        both = tuple(window for window in own if window in lent)
        return Lending(tuple(own), tuple(lent), both)

    def _useful(self, window: Window) -> bool:
        """Whether some op of the block itself may stand in its window, and fits."""
        shortest = min((s for s in self._own[window] if s > 0), default=None)
        return shortest is not None and shortest <= window.seconds * (1 + ROUNDING)

    def _takes_ahead(self, window: Window) -> bool:
        return self._shortest is not None and self._shortest <= window.seconds * (1 + ROUNDING)

    def _first_roomy(self, own: list[Window]) -> list[Window]:
        """The block's own windows up to the first one, in backward, that takes all it could."""
        for at, window in enumerate(own):
            if _roomy(window, sum(self._own[window])):
                return own[: at + 1]
        return own


def lasting(block: Block) -> tuple[float, ...]:
    """Seconds of the ops that may be placed in windows."""
    names = placeable(block)
    return tuple(op.forward_seconds for op in block.ops if op.name in names)


def own_lasting(block: Block, window: Window) -> tuple[float, ...]:
    """Seconds of the ops that may be placed in a window of their own block."""
    return tuple(_own_seconds(block, window))


def _own_seconds(block: Block, window: Window) -> list[float]:
    """Of the placeable ops, those that may be read before the window only."""
    names, read = placeable(block), _first_readers(block)
    return [
        op.forward_seconds
        for op in block.ops
        if op.name in names and read[op.name] < window.position
    ]


@lru_cache(maxsize=512)
def _first_readers(block: Block) -> dict[str, int]:
    """How far on the last op stands, at least, whose backward waits for a rebuilt tensor.

    A needed tensor has its own readers; another one is rebuilt only for some tensor made of it.
    """
    found: dict[str, int] = {}
    for op in reversed(block.ops):
        readers = [at for at, other in enumerate(block.ops) if op.name in other.backward_reads]
        made = [found[other.name] for other in block.ops if op.name in other.inputs]
        found[op.name] = max(readers) if readers else min(made, default=-1)
    return found


def _roomy(window: Window, seconds: float) -> bool:
    return seconds <= window.seconds * (1 + ROUNDING)
