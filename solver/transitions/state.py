"""Which part of the state each node holds, or must hold, under a layout.

A block's parameters are an axis; tensor parallelism gives each of its ranks an equal stretch of it,
and a sharded optimizer divides that stretch again among the replicas (Megatron-LM's distributed
optimizer, over data and context parallel ranks). Stretches are counted in whole parts of the axis,
so that shares of two layouts can be compared exactly. State per parameter: weights of 2 bytes,
master weights of 4 and two moments of 4 each, 14 in all; published checkpoints are 12.9 to 13.1
(NVIDIA dgxc-benchmarking, Nemotron-4 15B and 340B), as weights can be cast from the master.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import lcm

import numpy as np
import numpy.typing as npt

from solver.errors import BadRequest
from solver.transitions.documents import PlanOnNodes

WEIGHT_BYTES = 2.0
OPTIMIZER_BYTES = 12.0

Index = npt.NDArray[np.int64]
Stretch = tuple[int, int]


@dataclass(frozen=True)
class Layers:
    """The model's blocks: ``parameters`` of each, in model order."""

    parameters: npt.NDArray[np.float64]

    def of_stages(self, plan: PlanOnNodes, field: str) -> list[range]:
        """The blocks of every stage of a plan, virtual ones included, in model order.

        Raises:
            BadRequest: The plan's stages do not add up to the model.
        """
        count = plan.pipeline_parallel * plan.virtual_stages
        sizes = plan.stages
        if count > len(self.parameters):
            raise BadRequest(
                f"{count:,} stages are more than the model's {len(self.parameters)} blocks.",
                field=f"{field}.pipeline_parallel",
                hint="Copy pipeline_parallel and virtual_stages from the plan.",
            )
        if sizes is None:
            sizes = [len(part) for part in np.array_split(np.arange(len(self.parameters)), count)]
        if len(sizes) != count or sum(sizes) != len(self.parameters):
            raise BadRequest(
                f"{len(sizes)} stages with {sum(sizes)} blocks are not the {count} stages and "
                f"{len(self.parameters)} blocks of the plan and its model.",
                field=f"{field}.stages",
                hint="Copy the numbers of blocks from the plan's stages, or leave them out.",
            )
        edges = np.cumsum([0, *sizes])
        return [range(int(a), int(b)) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True)
class Shares:
    """What the node slots of a plan hold: by slot and stage, stretches of weights and optimizer.

    ``parts``: of how many parts the axis is made.
    """

    plan: PlanOnNodes
    per_node: int
    parts: int

    @cached_property
    def slots(self) -> list[dict[int, tuple[list[Stretch], list[Stretch]]]]:
        """By slot: stage to the stretches of weights and of optimizer state."""
        plan = self.plan
        tensor, replicas = plan.tensor_parallel, plan.data_parallel * plan.context_parallel
        per_stage = tensor * replicas
        width = self.parts // tensor
        found = []
        for first in range(0, plan.devices, self.per_node):
            raw: dict[int, tuple[list[Stretch], list[Stretch]]] = {}
            for rank in range(first, min(first + self.per_node, plan.devices)):
                device, inner = divmod(rank, per_stage)
                start = inner % tensor * width
                weights, optimizer = (start, start + width), (start, start + width)
                if plan.zero_stage:
                    shard = width // replicas
                    low = start + inner // tensor * shard
                    optimizer = (low, low + shard)
                for chunk in range(plan.virtual_stages):
                    stage = chunk * plan.pipeline_parallel + device
                    both = raw.setdefault(stage, ([], []))
                    both[0].append(weights)
                    both[1].append(optimizer)
            found.append({stage: (union(w), union(o)) for stage, (w, o) in raw.items()})
        return found


def parts_for(*plans: PlanOnNodes) -> int:
    """Parts of the axis into which the stretches of all these plans fit."""
    return lcm(
        *(plan.tensor_parallel * plan.data_parallel * plan.context_parallel for plan in plans)
    )


def union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches in order, those that touch or overlap made one."""
    merged: list[Stretch] = []
    for low, high in sorted(stretches):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def common(first: list[Stretch], second: list[Stretch]) -> int:
    """Parts that both cover."""
    total, i, j = 0, 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        total += max(0, high - low)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total


def without(stretches: list[Stretch], taken: list[Stretch]) -> list[Stretch]:
    """What of the first the second does not cover."""
    left: list[Stretch] = []
    for low, high in stretches:
        at = low
        for start, stop in taken:
            if stop <= at or start >= high:
                continue
            if start > at:
                left.append((at, start))
            at = max(at, stop)
        if at < high:
            left.append((at, high))
    return left


def both(first: list[Stretch], second: list[Stretch]) -> list[Stretch]:
    """What both cover."""
    return without(first, without([(0, 1 << 62)], second))
