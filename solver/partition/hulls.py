"""The lower convex hulls of choices in bytes and seconds, and quick mixes along them.

At a price per byte every kind has a best choice, a corner of its hull; the higher the price, the
less it keeps. The relaxation of a mix takes the least price at which all blocks fit; the blocks
that then still fit one corner further up go there. That is a mix, and its seconds are at most
those of one block's step off the relaxation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Corners = list[tuple[float, float]]

MUCH = 1e300
"""Bytes that nothing has room for; finite, so that none of it is nothing."""


def corners(kept: Floats, seconds: Floats) -> Corners:
    """The corners of the hull by ascending kept bytes and falling seconds; ``kept`` ascends."""
    falls = np.ones(len(seconds), dtype=bool)
    np.less(seconds[1:], np.minimum.accumulate(seconds)[:-1], out=falls[1:])
    across: list[float] = []
    down: list[float] = []
    for x, y in zip(kept[falls].tolist(), seconds[falls].tolist(), strict=True):
        if across and x == across[-1]:
            across.pop()
            down.pop()
        # The last corner goes where it lies on or above the line from the one before to this point.
        while len(across) > 1 and (down[-1] - down[-2]) * (x - across[-2]) >= (y - down[-2]) * (
            across[-1] - across[-2]
        ):
            across.pop()
            down.pop()
        across.append(x)
        down.append(y)
    return list(zip(across, down, strict=True))


def slopes(hull: Corners) -> list[float]:
    """Seconds saved per byte from each corner to the next, falling."""
    return [(a[1] - b[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(hull)]


class Hulls:
    """The best choices of every kind at every price, prices ascending, in several levels.

    Args:
        levels: Per level the corners of every kind's hull; none where a kind has no choice.
    """

    def __init__(self, levels: Sequence[Sequence[Corners]]) -> None:
        falls = [[slopes(hull) for hull in hulls] for hulls in levels]
        prices = [sorted({0.0, *itertools.chain(*fall)}) for fall in falls]
        most = max(len(each) for each in prices)
        shape = (len(levels), len(levels[0]), most)
        # Of two choices that are as good at a price, the one that keeps less; what the other one
        # keeps beyond it, and saves by that.
        self._kept, self._seconds = np.full(shape, MUCH), np.zeros(shape)
        self._step, self._saved = np.zeros(shape), np.zeros(shape)
        for level, hulls in enumerate(levels):
            price = np.array(prices[level] + prices[level][-1:] * (most - len(prices[level])))
            for kind, hull in enumerate(hulls):
                if hull:
                    kept, seconds = np.array(hull).T
                    rising = np.array(falls[level][kind][::-1])
                    less = len(rising) - np.searchsorted(rising, price, side="right")
                    more = len(rising) - np.searchsorted(rising, price, side="left")
                    at = level, kind
                    self._kept[at], self._seconds[at] = kept[less], seconds[less]
                    self._step[at] = kept[more] - kept[less]
                    self._saved[at] = seconds[less] - seconds[more]

    def rounded(self, counts: Index, width: Floats) -> Floats:
        """Seconds of the best quick mix of any level, shape (runs,); infinite where none fits.

        Args:
            counts: Blocks of each kind, shape (runs, kinds).
            width: Kept bytes that fit in each level, shape (levels, runs).
        """
        blocks = counts.astype(np.float64)
        fits = blocks @ self._kept <= width[..., None]
        at = fits.argmax(axis=2)
        level, run = np.ogrid[: len(width), : len(counts)]
        kept, seconds, step, saved = (
            part[level, :, at] for part in (self._kept, self._seconds, self._step, self._saved)
        )
        room = width - (kept * blocks).sum(axis=2)
        total = (seconds * blocks).sum(axis=2)
        for kind in range(blocks.shape[1]):
            rises = step[..., kind]
            if rises.any():
                fit = np.where(rises > 0, room // np.where(rises > 0, rises, 1.0), 0.0)
                taken = np.minimum(fit, blocks[:, kind])
                room -= taken * rises
                total -= taken * saved[..., kind]
        return np.asarray(np.where(fits[level, run, at], total, np.inf).min(axis=0))
