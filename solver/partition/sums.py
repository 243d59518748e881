"""Least total time of many blocks within a memory, by sums of their choices.

The sums over j blocks of a kind are those over half of them added to those over the other half;
of all sums only the undominated in (kept, seconds) whose reduced costs stay within the limit are
held. The last addition is a search instead of a product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.partition.menu import Floats, Index

MOST_PAIRS = 4_000_000
"""Pairs of sums beyond which an addition is not begun."""


@dataclass(frozen=True, eq=False)
class _Sums:
    """Undominated sums by ascending kept bytes and descending seconds, each of shape (sums,).

    ``first`` and ``second`` index the sums that were added, in ``parts``; a sum over one block is a
    choice, and then ``first`` is its row.
    """

    kept: Floats
    seconds: Floats
    reduced: Floats
    first: Index
    second: Index
    parts: tuple[_Sums, _Sums] | int
    """What was added; or which kind the single block is of."""

    def spread(self, at: int, into: list[dict[int, int]]) -> None:
        """Count the choices behind one sum, per kind and row."""
        if isinstance(self.parts, int):
            row = int(self.first[at])
            into[self.parts][row] = into[self.parts].get(row, 0) + 1
            return
        self.parts[0].spread(int(self.first[at]), into)
        self.parts[1].spread(int(self.second[at]), into)


def best_total(
    kinds: list[tuple[int, Floats]], room: float, limit: float
) -> tuple[float, list[list[int]]] | None:
    """The least seconds of any mix within ``room``, and how often each choice is taken.

    Args:
        kinds: Per kind, the number of blocks and its choices as rows (kept, seconds, reduced).
        room: Kept bytes allowed in all.
        limit: Reduced costs at which a mix is no longer of interest.

    Returns:
        None if it would take too much; (inf, ...) if no mix within the limit has room.
    """
    groups: list[_Sums] = []
    for kind, (count, table) in enumerate(kinds):
        whole = _halves(count, _single(kind, table), limit)
        if whole is None:
            return None
        groups += whole
    while len(groups) > 2:
        groups.sort(key=lambda sums: len(sums.kept))
        added = _add(groups[0], groups[1], limit)
        if added is None:
            return None
        groups = [added, *groups[2:]]
    counts: list[dict[int, int]] = [{} for _ in kinds]
    if len(groups) == 1:
        groups.append(_NOTHING)
    one, other = groups
    at = np.searchsorted(other.kept, room - one.kept, side="right") - 1
    total = np.where(at >= 0, one.seconds + other.seconds[at], np.inf)
    best = int(np.argmin(total))
    if np.isfinite(total[best]):
        one.spread(best, counts)
        if other is not _NOTHING:
            other.spread(int(at[best]), counts)
    picked = [
        [counts[kind].get(row, 0) for row in range(len(table))]
        for kind, (_, table) in enumerate(kinds)
    ]
    return float(total[best]), picked


_NOTHING = _Sums(
    kept=np.zeros(1),
    seconds=np.zeros(1),
    reduced=np.zeros(1),
    first=np.zeros(1, dtype=np.int64),
    second=np.zeros(1, dtype=np.int64),
    parts=-1,
)
"""The sum over no block."""


def _single(kind: int, table: Floats) -> _Sums:
    rows = _undominated(table[:, 0], table[:, 1])
    kept, seconds, reduced = table[rows].T
    return _Sums(kept, seconds, reduced, rows, rows, kind)


def _halves(count: int, single: _Sums, limit: float) -> list[_Sums] | None:
    """Sums over two halves of ``count`` blocks (over all of one block)."""
    known = {1: single}

    def over(blocks: int) -> _Sums | None:
        if blocks not in known:
            one, other = over(blocks - blocks // 2), over(blocks // 2)
            added = _add(one, other, limit) if one and other else None
            if added is None:
                return None
            known[blocks] = added
        return known[blocks]

    if count == 1:
        return [single]
    halves = [over(count - count // 2), over(count // 2)]
    found = [half for half in halves if half is not None]
    return found if len(found) == 2 else None


def _add(one: _Sums, other: _Sums, limit: float) -> _Sums | None:
    if len(one.kept) * len(other.kept) > MOST_PAIRS:
        return None
    reduced = one.reduced[:, None] + other.reduced
    first, second = np.nonzero(reduced < limit)
    kept = one.kept[first] + other.kept[second]
    seconds = one.seconds[first] + other.seconds[second]
    rows = _undominated(kept, seconds)
    first, second = first[rows], second[rows]
    return _Sums(kept[rows], seconds[rows], reduced[first, second], first, second, (one, other))


def _undominated(kept: Floats, seconds: Floats) -> Index:
    """Rows that no other row beats in both, by ascending kept bytes."""
    order = np.lexsort((seconds, kept))
    least = np.minimum.accumulate(seconds[order])
    better = np.concatenate([[True], least[1:] < least[:-1]])
    return np.asarray(order[better])
