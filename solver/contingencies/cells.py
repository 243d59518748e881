"""Where the nodes of a plan stand: which pipeline stages and which replicas each of them holds.

Replicas are alike, so a failure matters only up to their order. Nodes with the same replicas make a
row; rows with the same number of nodes for every stage may change places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import factorial

from solver.layouts.layout import Layout

Place = tuple[tuple[int, ...], int]
"""Stages of a node, and which of the nodes of its row with these stages it is."""

Key = tuple[tuple[Place, ...], ...]
"""What failed of every row that is touched; rows in ascending order."""


@dataclass(frozen=True)
class Cells:
    """Stages and replicas of every node of a plan, by its position in rank order."""

    stages: tuple[tuple[int, ...], ...]
    replicas: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """Nodes."""
        return len(self.stages)

    @cached_property
    def rows(self) -> dict[tuple[int, ...], dict[Place, int]]:
        """By replicas: the position of every place. Where replicas straddle, a row per node."""
        found: dict[tuple[int, ...], dict[Place, int]] = defaultdict(dict)
        taken: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = defaultdict(int)
        for position, (stages, replicas) in enumerate(zip(self.stages, self.replicas, strict=True)):
            if not self._alike:
                found[position,][stages, position] = position
                continue
            part = taken[replicas, stages]
            taken[replicas, stages] += 1
            found[replicas][stages, part] = position
        return dict(found)

    @cached_property
    def _alike(self) -> bool:
        """Whether rows are disjoint and equal, so that they may change places."""
        rows = set(self.replicas)
        if sum(map(len, rows)) != len(set().union(*rows)):
            return False
        held = defaultdict(list)
        for stages, replicas in zip(self.stages, self.replicas, strict=True):
            held[replicas].append(stages)
        return len({tuple(sorted(stages)) for stages in held.values()}) == 1

    @cached_property
    def _place(self) -> dict[int, tuple[tuple[int, ...], Place]]:
        return {
            position: (row, place)
            for row, places in self.rows.items()
            for place, position in places.items()
        }

    def key(self, failed: Iterable[int]) -> Key:
        """The class of a set of positions: equal for sets that are alike."""
        return tuple(sorted(tuple(sorted(places)) for places in self._touched(failed).values()))

    def alike(self, key: Key) -> int:
        """How many sets have this key."""
        if not self._alike:
            return 1
        total = len(self.rows)
        same: dict[tuple[Place, ...], int] = defaultdict(int)
        for places in key:
            same[places] += 1
        ways = factorial(total) // factorial(total - len(key))
        for number in same.values():
            ways //= factorial(number)
        return ways

    def members(self, size: int) -> dict[Key, list[tuple[int, ...]]]:
        """Every set of so many positions, by its class."""
        found: dict[Key, list[tuple[int, ...]]] = defaultdict(list)
        for failed in combinations(range(self.count), size):
            found[self.key(failed)].append(failed)
        return found

    def onto(self, example: Iterable[int], failed: Iterable[int]) -> dict[int, int]:
        """Positions where those of the example's world stand once rows have changed places.

        Both sets have the same key.
        """
        one, other = self._touched(example), self._touched(failed)
        order = [sorted(touched, key=lambda row: sorted(touched[row])) for touched in (one, other)]
        rest = [[row for row in self.rows if row not in touched] for touched in (one, other)]
        found = {}
        for source, target in zip(order[0] + rest[0], order[1] + rest[1], strict=True):
            for place, position in self.rows[source].items():
                found[position] = self.rows[target][place]
        return found

    def lost_replicas(self, failed: Iterable[int]) -> frozenset[int]:
        """Replicas of which some node failed."""
        return frozenset(replica for node in failed for replica in self.replicas[node])

    def lost_cells(self, failed: Iterable[int]) -> frozenset[tuple[int, int]]:
        """Pairs of stage and replica of which some node failed."""
        return frozenset(
            (stage, replica)
            for node in failed
            for stage in self.stages[node]
            for replica in self.replicas[node]
        )

    def _touched(self, failed: Iterable[int]) -> dict[tuple[int, ...], list[Place]]:
        found = defaultdict(list)
        for position in failed:
            row, place = self._place[position]
            found[row].append(place)
        return dict(found)


def cells_of(layout: Layout, per_node: int) -> Cells:
    """The cells of a layout whose ranks follow Megatron-LM's order tp-cp-ep-dp-pp."""
    inner = layout.tensor_parallel * layout.context_parallel
    per_stage = inner * layout.data_parallel
    stages, replicas = [], []
    for first in range(0, layout.devices, per_node):
        ranks = range(first, min(first + per_node, layout.devices))
        stages.append(tuple(sorted({rank // per_stage for rank in ranks})))
        replicas.append(tuple(sorted({rank % per_stage // inner for rank in ranks})))
    return Cells(tuple(stages), tuple(replicas))
