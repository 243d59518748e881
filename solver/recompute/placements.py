"""Where a block recomputes: kept, on demand, or in a window, every Pareto-best way.

Decided per op, from last to first as in ``frontier.py``. A recomputed op of a block may stand

- on demand, in the backward of its own block: its forward seconds are added to it;
- in a window of the following block, whose backward comes first;
- in a window of its own block that comes before the gradient reaches any op that reads the tensor,
  or one recomputed from it.

In a window its inputs must be there: the block's input, kept, or in an earlier or the same window.
So each tensor still to be decided carries the set of places that its readers leave it.

A window's use counts among the costs of a choice, because two blocks share it: the own block, and
the one before it. Uses are counted in steps (:class:`Fill`): of two uses that leave room for the
same sets of ops neither is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.costs.pipeline import Block, Op, OpKind
from solver.recompute.choice import Choice, Placed, needed_tensors
from solver.recompute.dominance import Floats, undominated_rows
from solver.recompute.fill import ROUNDING, Fill
from solver.recompute.windows import Window, placeable


@dataclass(frozen=True, eq=False)
class Placements:
    """The choices of a block by ascending kept bytes; arrays have shape (choices,).

    ``early`` are the bytes in windows of the following block. ``own`` and ``following`` are the
    seconds used of each window of the block itself and of the following one, shape (choices,
    windows).
    """

    choices: tuple[Choice, ...]
    kept: Floats
    seconds: Floats
    rebuilt: Floats
    early: Floats
    own: Floats
    following: Floats


@dataclass(frozen=True)
class Slots:
    """The windows that a block may use, with what each is filled by.

    ``following`` and ``own`` are in time order; ``fills`` are of both, in that order. ``shared``:
    whether uses count among the costs, as they must where another block wants the same windows.
    ``relaxed``: instead, all that is run again counts, hidden or not. ``apart``: nothing on demand
    takes what is placed in a window.
    """

    following: tuple[Window, ...]
    own: tuple[Window, ...]
    fills: tuple[Fill, ...]
    shared: bool = True
    relaxed: bool = False
    apart: bool = False


def placements(block: Block, slots: Slots, charge: float, most: int) -> Placements | None:
    """Every choice of a block that is not replaceable by another, or None if they are too many.

    Args:
        block: What is decided about.
        slots: Its windows.
        charge: Seconds by which a second of hidden recompute lengthens the window.
        most: Choices, partial ones included, beyond which it is given up.
    """
    return _Walk(block, slots, charge, most).run()


_KEPT, _SECONDS, _REBUILT, _EARLY = range(4)
_Demands = tuple[tuple[int, int], ...]
"""Ops that must be there, by position, each with the places left to it as a bit set."""
_Steps = tuple[int, int, "_Steps"] | None
"""Decisions so far, as a chain: op position, place (or ``_ON_DEMAND``), and the ones before."""


@dataclass(frozen=True, eq=False)
class _Labels:
    """Partial choices: costs and rounded and true uses side by side, and their decisions."""

    costs: Floats
    steps: list[_Steps]


class _Walk:
    def __init__(self, block: Block, slots: Slots, charge: float, most: int) -> None:
        self._block, self._slots, self._charge, self._most = block, slots, charge, most
        self._count = len(slots.following) + len(slots.own)
        self._on_demand = 1 << self._count
        self._needed = needed_tensors(block)
        self._placeable = placeable(block)
        self._position = {op.name: at for at, op in enumerate(block.ops)}
        self._readable = self._places_before_readers()

    def _places_before_readers(self) -> list[int]:
        """Per op, the places that come before every backward that reads its tensor."""
        lent = len(self._slots.following)
        found = []
        for op in self._block.ops:
            last = max(
                (at for at, other in enumerate(self._block.ops) if op.name in other.backward_reads),
                default=-1,
            )
            places = self._on_demand | (1 << lent) - 1
            for at, window in enumerate(self._slots.own):
                if window.position > last:
                    places |= 1 << lent + at
            found.append(places)
        return found

    def run(self) -> Placements | None:
        start = np.zeros((1, 4 + 2 * self._count))
        start[0, 4 : 4 + self._count] = [fill.up(np.zeros(1))[0] for fill in self._slots.fills]
        labels: dict[_Demands, _Labels] = {(): _Labels(start, [None])}
        for at in reversed(range(len(self._block.ops))):
            grown: dict[_Demands, list[_Labels]] = {}
            for demands, label in labels.items():
                self._decide(at, demands, label, grown)
            labels = {demands: self._merge(parts) for demands, parts in grown.items()}
            if sum(len(label.steps) for label in labels.values()) > self._most:
                return None
        (final,) = labels.values()
        return self._placements(final)

    def _decide(
        self, at: int, demands: _Demands, label: _Labels, into: dict[_Demands, list[_Labels]]
    ) -> None:
        """Everything that may become of one op's tensor, given what later ops demand."""
        op = self._block.ops[at]
        asked = dict(demands)
        places = asked.pop(at, None)
        needed = op.name in self._needed
        if places is None and not needed:
            into.setdefault(demands, []).append(label)
            return
        if needed:
            costs = label.costs.copy()
            costs[:, _KEPT] += op.output_bytes
            into.setdefault(_ordered(asked), []).append(_Labels(costs, label.steps))
            places = self._readable[at] if places is None else places & self._readable[at]
        assert places is not None
        if op.hands_on:
            self._enter(op, asked, places, _Labels(label.costs, _stepped(label, at, -1)), into)
            return
        if places & self._on_demand:
            costs = label.costs.copy()
            costs[:, _SECONDS] += op.forward_seconds
            costs[:, _REBUILT] += op.output_bytes
            left = self._on_demand if self._slots.apart else places
            self._enter(op, asked, left, _Labels(costs, _stepped(label, at, -1)), into)
        if op.kind is OpKind.COMPUTE and op.name in self._placeable:
            for place in range(self._count):
                if places >> place & 1:
                    placed = self._place(op, at, place, label)
                    if placed is not None:
                        self._enter(op, asked, (2 << place) - 1, placed, into)

    def _place(self, op: Op, at: int, place: int, label: _Labels) -> _Labels | None:
        """The labels in which a window still takes an op."""
        fill, column = self._slots.fills[place], 4 + place
        used = fill.up(label.costs[:, column] + op.forward_seconds)
        rows = np.flatnonzero(used <= fill.capacity * (1 + ROUNDING))
        if not len(rows):
            return None
        costs = label.costs[rows]
        costs[:, _SECONDS] += self._charge * op.forward_seconds
        costs[:, _REBUILT] += op.output_bytes
        costs[:, column] = used[rows]
        costs[:, column + self._count] += op.forward_seconds
        if place < len(self._slots.following):
            costs[:, _EARLY] += op.output_bytes
        return _Labels(costs, [(at, place, label.steps[row]) for row in rows.tolist()])

    def _enter(
        self,
        op: Op,
        asked: dict[int, int],
        places: int,
        label: _Labels,
        into: dict[_Demands, list[_Labels]],
    ) -> None:
        """Demand an op's inputs in time for these places; nothing if one can never be there."""
        demands = dict(asked)
        for name in op.inputs:
            if name == "x":
                continue
            at = self._position[name]
            left = demands.get(at, places) & places
            source = self._block.ops[at]
            if not left & self._on_demand and name not in self._needed:
                windows_only = name in self._placeable or source.hands_on
                if not left or not windows_only:
                    return
            demands[at] = left
        into.setdefault(_ordered(demands), []).append(label)

    def _merge(self, parts: list[_Labels]) -> _Labels:
        if len(parts) == 1 and len(parts[0].steps) == 1:
            return parts[0]
        costs = np.concatenate([part.costs for part in parts])
        steps = [step for part in parts for step in part.steps]
        rows = undominated_rows(self._compared(costs, shared=True))
        return _Labels(costs[rows], [steps[row] for row in rows.tolist()])

    def _compared(self, costs: Floats, *, shared: bool) -> Floats:
        """What must be no larger for one choice to replace another.

        Bytes rebuilt or held early may grow by what kept bytes shrink (``frontier.py``).
        """
        kept = costs[:, _KEPT]
        columns = [kept, costs[:, _SECONDS], kept + costs[:, _REBUILT]]
        if self._slots.following:
            columns.append(kept + costs[:, _EARLY])
        if self._slots.relaxed:
            hidden = costs[:, 4 + self._count :].sum(axis=1)
            columns.append(costs[:, _SECONDS] + max(1.0 - self._charge, 0.0) * hidden)
        elif shared:
            columns += list(costs[:, 4 : 4 + self._count].T)
        return np.stack(columns, axis=1)

    def _placements(self, final: _Labels) -> Placements:
        costs = final.costs
        rows = undominated_rows(self._compared(costs, shared=self._slots.shared))
        order = rows[np.lexsort(costs[rows][:, [_EARLY, _REBUILT, _SECONDS, _KEPT]].T)]
        costs = costs[order]
        true = costs[:, 4 + self._count :]
        lent = len(self._slots.following)
        choices = tuple(
            self._choice(row, final.steps[at])
            for row, at in zip(costs.tolist(), order.tolist(), strict=True)
        )
        return Placements(
            choices=choices,
            kept=np.array([choice.kept_bytes for choice in choices]),
            seconds=costs[:, _SECONDS],
            rebuilt=costs[:, _REBUILT],
            early=costs[:, _EARLY],
            own=true[:, lent:],
            following=true[:, :lent],
        )

    def _choice(self, costs: list[float], steps: _Steps) -> Choice:
        decided: dict[int, int] = {}
        while steps is not None:
            at, place, steps = steps
            decided[at] = place
        lent, placed, hidden = len(self._slots.following), [], 0.0
        for at in sorted(decided):
            place, op = decided[at], self._block.ops[at]
            if place < 0:
                continue
            following = place < lent
            windows = self._slots.following if following else self._slots.own
            window = windows[place if following else place - lent]
            placed.append(Placed(op.name, window.op, following))
            hidden += op.forward_seconds
        return Choice(
            kept_bytes=self._block.input_bytes + costs[_KEPT],
            seconds=costs[_SECONDS],
            recompute_bytes=costs[_REBUILT],
            recomputed=tuple(self._block.ops[at].name for at in sorted(decided)),
            placed=tuple(placed),
            hidden_seconds=hidden,
            early_bytes=costs[_EARLY],
        )


def _stepped(label: _Labels, at: int, place: int) -> list[_Steps]:
    return [(at, place, step) for step in label.steps]


def _ordered(demands: dict[int, int]) -> _Demands:
    return tuple(sorted(demands.items()))
