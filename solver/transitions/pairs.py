"""What two layouts have in common, slot by slot, for many transitions between them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solver.transitions.documents import PlanOnNodes
from solver.transitions.state import (
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    Layers,
    Shares,
    Stretch,
    common,
    parts_for,
)

Floats = npt.NDArray[np.float64]
PER_PARAMETER = (WEIGHT_BYTES, OPTIMIZER_BYTES)
"""Bytes of weights and of optimizer state."""

Slots = list[dict[int, tuple[list[Stretch], list[Stretch]]]]
"""What the nodes of a plan hold, as ``Shares.slots``."""

Need = tuple[Slots, int]
"""What every node of the new plan is to hold, and the parts of an axis."""


@dataclass(frozen=True)
class Situation:
    """All that a transition depends on, worked out once for many transitions of a job."""

    layers: Layers
    devices_per_node: int
    node_bytes_per_second: float


@dataclass(frozen=True, eq=False)
class Pair:
    """Two layouts: what slots hold under each, and the parameters that stages have in common.

    ``parts``: of an axis. ``shared``: by an old and a new stage, where there are any.
    """

    have: Slots
    need: Slots
    shared: dict[tuple[int, int], float]
    parts: int

    @cached_property
    def table(self) -> Floats:
        """Bytes of every new slot that every old one has; shape (old slots, new slots)."""
        return np.array([[self.in_common(old, need) for need in self.need] for old in self.have])

    def in_common(
        self,
        have: dict[int, tuple[list[Stretch], list[Stretch]]],
        need: dict[int, tuple[list[Stretch], list[Stretch]]],
    ) -> float:
        """Bytes that a node has of what one needs."""
        total = 0.0
        for old, held in have.items():
            for new, wanted in need.items():
                parameters = self.shared.get((old, new))
                if parameters:
                    for kind, size in enumerate(PER_PARAMETER):
                        total += parameters * size * common(held[kind], wanted[kind]) / self.parts
        return total


class Pairs:
    """Pairs of layouts of one job, each reckoned once for many transitions between the two."""

    def __init__(self, facts: Situation) -> None:
        self._facts = facts
        self._pairs: dict[tuple[Hashable, Hashable], Pair] = {}
        self._slots: dict[tuple[Hashable, int], Slots] = {}

    def of(self, before: PlanOnNodes, after: PlanOnNodes) -> Pair:
        """The pair of two plans' layouts; on which nodes they are does not matter."""
        key = (_key(before), _key(after))
        if key not in self._pairs:
            parts = parts_for(before, after)
            self._pairs[key] = self._pair(before, after, self._held(after, parts), parts)
        return self._pairs[key]

    def to(self, before: PlanOnNodes, after: PlanOnNodes, need: Need) -> Pair:
        """The same where the nodes of ``after`` hold other shares than its layout gives them."""
        return self._pair(before, after, *need)

    def _pair(self, before: PlanOnNodes, after: PlanOnNodes, need: Slots, parts: int) -> Pair:
        layers = self._facts.layers
        sizes = layers.parameters
        shared = {
            (a, b): float(sizes[max(one.start, two.start) : min(one.stop, two.stop)].sum())
            for a, one in enumerate(layers.of_stages(before, "before"))
            for b, two in enumerate(layers.of_stages(after, "after"))
            if max(one.start, two.start) < min(one.stop, two.stop)
        }
        return Pair(self._held(before, parts), need, shared, parts)

    def _held(self, plan: PlanOnNodes, parts: int) -> Slots:
        key = (_key(plan), parts)
        if key not in self._slots:
            self._slots[key] = Shares(plan, self._facts.devices_per_node, parts).slots
        return self._slots[key]


def _key(plan: PlanOnNodes) -> Hashable:
    """A plan's layout without its nodes."""
    stages = None if plan.stages is None else tuple(plan.stages)
    sizes = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel, plan.zero_stage)
    return (*sizes, plan.pipeline_parallel, plan.virtual_stages, stages)
