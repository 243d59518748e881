"""Runs and when their stage recomputes: on demand, or ahead of the gradient.

The partition knows a cut by a number. Where stages may recompute ahead, the cut behind ``b`` blocks
is told by ``2 b`` if the stage that stops there recomputes on demand, by ``2 b + 1`` if ahead; so a
path through cuts decides both. The last stage waits for no gradient and recomputes on demand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.partition.candidates import Cut
from solver.partition.runs import Floats, Signatures


@dataclass(frozen=True, eq=False)
class TimedSignatures(Signatures):
    """Signatures of runs [start, stop) between such cuts.

    Those on demand come first, in the order of ``plain``; then, in the same order, those ahead.
    ``counts`` are those of ``plain``.
    """

    plain: Signatures

    @classmethod
    def of(cls, plain: Signatures) -> TimedSignatures:
        """All runs, in both timings."""
        length, size = len(plain.of_run) - 1, len(plain.counts)
        cut = np.arange(2 * length + 1)
        runs = plain.of_run[cut[:, None] // 2, cut // 2]
        return cls(np.where(runs >= 0, runs + size * (cut % 2), -1), plain.counts, plain)

    def loads(self, passes: Floats) -> Floats:
        """Seconds of all blocks before each cut."""
        return np.repeat(self.plain.loads(passes), 2)[:-1]


def timed(cuts: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """Plain cuts, every stage on demand."""
    return tuple((2 * start, 2 * stop) for start, stop in cuts)


def untimed(cuts: tuple[Cut, ...]) -> tuple[tuple[Cut, ...], tuple[bool, ...]]:
    """The plain cuts, and which stages recompute ahead."""
    plain = tuple((start // 2, stop // 2) for start, stop in cuts)
    return plain, tuple(stop % 2 == 1 for _, stop in cuts)
