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

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from solver.costs.pipeline import Block, Op, OpKind
from solver.recompute.choice import Choice, Picked, Placed, needed_tensors, offloading
from solver.recompute.dominance import Floats, undominated_rows
from solver.recompute.fill import ROUNDING, Fill
from solver.recompute.windows import Window, placeable


@dataclass(frozen=True, eq=False)
class PlacedChoices(Sequence[Choice]):
    """The choices behind placements, put in words when they are asked for.

    ``costs`` and ``reruns`` as in :class:`_Labels`; ``hidden`` are the seconds in windows.
    """

    block: Block
    slots: Slots
    costs: Floats
    reruns: npt.NDArray[Any]
    hidden: Floats

    def __len__(self) -> int:
        return len(self.costs)

    @overload
    def __getitem__(self, at: int) -> Choice: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Choice]: ...
    def __getitem__(self, at: int | slice) -> Choice | Sequence[Choice]:
        """One choice; or several."""
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        where: list[int] = self.reruns[at].tolist()
        windows, lent = [*self.slots.following, *self.slots.own], len(self.slots.following)
        everywhere = functools.reduce(operator.or_, where)
        recomputed = [op.name for i, op in enumerate(self.block.ops) if everywhere >> i & 1]
        placed = [
            Placed(op.name, window.op, place < lent)
            for i, op in enumerate(self.block.ops)
            for place, window in enumerate(windows)
            if where[1 + place] >> i & 1
        ]
        kept, seconds, rebuilt, early = self.costs[at, :4].tolist()
        choice = Choice(
            kept_bytes=self.block.input_bytes + kept,
            seconds=seconds,
            recompute_bytes=rebuilt,
            recomputed=tuple(recomputed),
            placed=tuple(placed),
            hidden_seconds=float(self.hidden[at]),
            early_bytes=early,
        )
        return offloading(self.block, choice, self.slots.offload_bytes)


@dataclass(frozen=True, eq=False)
class Placements:
    """The choices of a block by ascending kept bytes; arrays have shape (choices,).

    ``early`` are the bytes in windows of the following block. ``own`` and ``following`` are the
    seconds used of each window of the block itself and of the following one, shape (choices,
    windows).
    """

    choices: Sequence[Choice]
    kept: Floats
    seconds: Floats
    rebuilt: Floats
    early: Floats
    own: Floats
    following: Floats


def lent_by(made: Placements, following: tuple[Window, ...]) -> Placements:
    """The same placements where the following block's windows are these."""
    choices = made.choices
    assert isinstance(choices, PlacedChoices), "placements are named as they are made"
    named = replace(choices, slots=replace(choices.slots, following=following))
    return replace(made, choices=named)


def joined(one: Placements, other: Placements) -> Placements:
    """The choices of both, by ascending kept bytes."""
    order = np.argsort(np.concatenate([one.kept, other.kept]), kind="stable")

    def both(first: Floats, second: Floats) -> Floats:
        return np.concatenate([first, second])[order]

    nothing = np.zeros((len(order), 0))
    return Placements(
        choices=Picked((one.choices, other.choices), order),
        kept=both(one.kept, other.kept),
        seconds=both(one.seconds, other.seconds),
        rebuilt=both(one.rebuilt, other.rebuilt),
        early=both(one.early, other.early),
        own=nothing,
        following=nothing,
    )


@dataclass(frozen=True)
class Slots:
    """The windows that a block may use, with what each is filled by.

    ``following`` and ``own`` are in time order; ``fills`` are of both, in that order. ``shared``:
    which of them, in that order, other blocks want too, so that their uses count among the costs;
    None: all of them. ``apart``: nothing on demand takes what is placed in a window. ``gathers``:
    bytes held early are no cost. ``offload_bytes``: what of the block may wait in host memory.
    """

    following: tuple[Window, ...]
    own: tuple[Window, ...]
    fills: tuple[Fill, ...]
    shared: tuple[bool, ...] | None = None
    apart: bool = False
    gathers: bool = False
    offload_bytes: float = 0.0


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
_WORD = 62
"""Ops whose reruns a machine integer tells; blocks with more are told by Python's integers."""


@dataclass(frozen=True, eq=False)
class _Labels:
    """Partial choices: their costs and rounded uses side by side, and what each runs again.

    ``reruns`` has shape (labels, 1 + windows): the ops run again in no window, then those in each,
    as bit sets.
    """

    costs: Floats
    reruns: npt.NDArray[Any]


class _Walk:
    def __init__(self, block: Block, slots: Slots, charge: float, most: int) -> None:
        self._block, self._slots, self._charge, self._most = block, slots, charge, most
        self._count = len(slots.following) + len(slots.own)
        self._on_demand = 1 << self._count
        self._needed = needed_tensors(block)
        self._placeable = placeable(block)
        self._position = {op.name: at for at, op in enumerate(block.ops)}
        self._readable = self._places_before_readers()
        # Columns of uses that tell labels apart on the way, and in the end.
        self._counted = [4 + at for at, fill in enumerate(slots.fills) if fill.counts]
        shared = slots.shared or (True,) * self._count
        self._shared = [column for column in self._counted if shared[column - 4]]
        self._left = [self._fills(place, shared[place]) for place in range(self._count)]

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

    def _fills(self, place: int, shared: bool) -> list[Fill]:
        """A window's fill as each op is decided, and before any is.

        What is left of a window of one block alone matters to ops before that one only.
        """
        ops, fill = self._block.ops, self._slots.fills[place]
        if shared or not fill.counts:
            return [fill] * (len(ops) + 1)
        may = [
            op.name in self._placeable and bool(self._readable[at] >> place & 1)
            for at, op in enumerate(ops)
        ]
        seconds = [op.forward_seconds for op, one in zip(ops, may, strict=True) if one]
        growing = Fill.growing(fill.capacity, seconds)
        return [growing[before] for before in itertools.accumulate(may, initial=0)]

    def run(self) -> Placements | None:
        start = np.zeros((1, 4 + self._count))
        start[0, 4:] = [fills[-1].up(np.zeros(1))[0] for fills in self._left]
        kind = np.int64 if len(self._block.ops) <= _WORD else object
        nothing = np.zeros((1, 1 + self._count), dtype=kind)
        labels: dict[_Demands, _Labels] = {(): _Labels(start, nothing)}
        for at in reversed(range(len(self._block.ops))):
            grown: dict[_Demands, list[_Labels]] = {}
            for demands, label in labels.items():
                self._decide(at, demands, label, grown)
            labels = {demands: self._merge(parts, at) for demands, parts in grown.items()}
            if sum(len(label.costs) for label in labels.values()) > self._most:
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
            into.setdefault(_ordered(asked), []).append(_Labels(costs, label.reruns))
            places = self._readable[at] if places is None else places & self._readable[at]
        assert places is not None
        if op.hands_on:
            self._enter(op, asked, places, _rerun(label, label.costs, at, 0), into)
            return
        if places & self._on_demand:
            costs = label.costs.copy()
            costs[:, _SECONDS] += op.forward_seconds
            costs[:, _REBUILT] += op.output_bytes
            left = self._on_demand if self._slots.apart else places
            self._enter(op, asked, left, _rerun(label, costs, at, 0), into)
        if op.kind is OpKind.COMPUTE and op.name in self._placeable:
            for place in range(self._count):
                if places >> place & 1:
                    placed = self._place(op, at, place, label)
                    if placed is not None:
                        self._enter(op, asked, (2 << place) - 1, placed, into)

    def _place(self, op: Op, at: int, place: int, label: _Labels) -> _Labels | None:
        """The labels in which a window still takes an op."""
        fill, column = self._left[place][at], 4 + place
        if fill.counts:
            used = fill.up(label.costs[:, column] + op.forward_seconds)
            rows = np.flatnonzero(used <= fill.capacity * (1 + ROUNDING))
            if not len(rows):
                return None
            label = _Labels(label.costs[rows], label.reruns[rows])
            costs = label.costs
            costs[:, column] = used[rows]
        else:
            costs = label.costs.copy()
        costs[:, _SECONDS] += self._charge * op.forward_seconds
        costs[:, _REBUILT] += op.output_bytes
        if place < len(self._slots.following):
            costs[:, _EARLY] += op.output_bytes
        return _rerun(label, costs, at, 1 + place)

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

    def _merge(self, parts: list[_Labels], at: int) -> _Labels:
        if len(parts) == 1:
            return parts[0]
        costs = np.concatenate([part.costs for part in parts])
        for column in self._counted:
            costs[:, column] = self._left[column - 4][at].up(costs[:, column])
        reruns = np.concatenate([part.reruns for part in parts])
        if self._slots.gathers and self._slots.following:  # of equals those that hold least early
            order = np.argsort(costs[:, _EARLY], kind="stable")
            costs, reruns = costs[order], reruns[order]
        rows = undominated_rows(self._compared(costs, self._counted))
        return _Labels(costs[rows], reruns[rows])

    def _compared(self, costs: Floats, uses: list[int]) -> Floats:
        """What must be no larger for one choice to replace another.

        Bytes rebuilt or held early may grow by what kept bytes shrink (``frontier.py``).
        """
        kept = costs[:, _KEPT]
        # Of partial choices the least difference of what stays on the device (``frontier.py``).
        held = np.maximum(kept, self._slots.offload_bytes - self._block.input_bytes)
        columns = [kept, costs[:, _SECONDS], held + costs[:, _REBUILT]]
        if self._slots.following and not self._slots.gathers:
            columns.append(held + costs[:, _EARLY])
        columns += list(costs[:, uses].T)
        return np.stack(columns, axis=1)

    def _uses(self, reruns: npt.NDArray[Any]) -> Floats:
        """Seconds used of every window, shape (labels, windows)."""
        used = np.zeros((len(reruns), self._count))
        for at, op in enumerate(self._block.ops):
            used += op.forward_seconds * (reruns[:, 1:] >> at & 1).astype(np.float64)
        return used

    def _placements(self, final: _Labels) -> Placements:
        costs = final.costs
        rows = undominated_rows(self._compared(costs, self._shared))
        order = rows[np.lexsort(costs[rows][:, [_EARLY, _REBUILT, _SECONDS, _KEPT]].T)]
        costs, reruns = costs[order], final.reruns[order]
        true, lent = self._uses(reruns), len(self._slots.following)
        return Placements(
            choices=PlacedChoices(self._block, self._slots, costs, reruns, true.sum(axis=1)),
            kept=np.maximum(
                self._block.input_bytes + costs[:, _KEPT] - self._slots.offload_bytes, 0.0
            ),
            seconds=costs[:, _SECONDS],
            rebuilt=costs[:, _REBUILT],
            early=costs[:, _EARLY],
            own=true[:, lent:],
            following=true[:, :lent],
        )


def _rerun(label: _Labels, costs: Floats, at: int, column: int) -> _Labels:
    """The labels with one op run again: in no window (0), or in one of them."""
    reruns = label.reruns.copy()
    reruns[:, column] |= 1 << at
    return _Labels(costs, reruns)


def _ordered(demands: dict[int, int]) -> _Demands:
    return tuple(sorted(demands.items()))
