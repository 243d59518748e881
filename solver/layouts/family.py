"""Layouts that share their blocks, as arrays, and the variants that each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

from solver.layouts.choices import folds_alike
from solver.layouts.layout import Layout
from solver.layouts.setting import divisors
from solver.request import RankOrder

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Family:
    """Layouts whose blocks cost the same; the arrays are parallel, one entry per member.

    ``exemplar`` is no member: a layout without a pipeline and with all replicas that any member
    has, whose blocks take no longer and hold no more than any member's. ``variants`` are the
    ZeRO stages, sharding groups (None: every divisor) and rank orders that a member may have.
    """

    exemplar: Layout
    pipeline: Index
    virtual: Index
    data: Index
    micro_batches: Index
    schedule: tuple[str, ...]
    zero_stages: tuple[int, ...]
    sharding_groups: tuple[int, ...] | None
    rank_orders: tuple[str, ...]
    several_experts: bool = False

    def __len__(self) -> int:
        """Members, variants apart."""
        return len(self.pipeline)

    def member(self, position: int) -> Layout:
        """The member at a position, in the variant that needs least memory."""
        return replace(
            self.exemplar,
            pipeline_parallel=int(self.pipeline[position]),
            virtual_stages=int(self.virtual[position]),
            data_parallel=int(self.data[position]),
            schedule=self.schedule[position],
        )

    def only(self, positions: Sequence[int]) -> Self:
        """The family of some members alone."""
        some = np.array(positions, dtype=np.int64)
        return replace(
            self,
            pipeline=self.pipeline[some],
            virtual=self.virtual[some],
            data=self.data[some],
            micro_batches=self.micro_batches[some],
            schedule=tuple(self.schedule[position] for position in positions),
        )

    def variants(self, position: int) -> tuple[Layout, ...]:
        """All variants of a member, the one that needs least memory first."""
        member = self.member(position)
        return tuple(
            replace(member, zero_stage=zero, sharding_group=group, rank_order=order)
            for order in self.orders(member.data_parallel, member.pipeline_parallel > 1)
            for zero in sorted(self.zero_stages, reverse=True)
            for group in self.groups(member.data_parallel, zero)
        )

    def counts(self) -> Index:
        """How many variants each member has, shape (members,)."""
        members = list(zip(self.data.tolist(), (self.pipeline > 1).tolist(), strict=True))
        known = {member: self._count(*member) for member in set(members)}
        return np.array([known[member] for member in members], dtype=np.int64)

    def _count(self, data: int, piped: bool) -> int:
        """Variants of a member of so many replicas, with or without a pipeline."""
        groups = sum(len(self.groups(data, zero)) for zero in self.zero_stages)
        return len(self.orders(data, piped)) * groups

    def orders(self, data: int, piped: bool) -> Sequence[str]:
        """Orders that differ for a member (``rules.py`` says which a framework can run)."""
        legal: Sequence[str] = self.rank_orders
        if piped and self.several_experts and not folds_alike(self.exemplar):
            inside = RankOrder.PIPELINE_INSIDE.value
            legal = [order for order in legal if order != inside]
        return legal if piped and data > 1 else legal[:1]

    def groups(self, data: int, zero_stage: int) -> Sequence[int]:
        """Sharding groups of a member, 0 for all replicas, largest first."""
        if self.sharding_groups == (0,):
            return (0,)
        if zero_stage == 0:
            return (0,) if self.sharding_groups is None else ()
        one = self.exemplar
        replicas = expert_replicas = data * one.context_parallel
        if self.several_experts:
            folded = one.expert_parallel * one.expert_shards
            expert_replicas = replicas * one.tensor_parallel // folded
        return _sharding_groups(replicas, expert_replicas, self.sharding_groups)


@lru_cache(maxsize=4096)
def _sharding_groups(
    replicas: int, expert_replicas: int, admitted: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Groups over which states can be sharded, those of the experts in as many parts."""
    found = []
    for size in reversed(divisors(replicas)):
        if admitted is not None and size not in admitted:
            continue
        if size == 1 < replicas and admitted is None:
            continue  # sharded over one: ZeRO 0
        if expert_replicas % (replicas // size) == 0:
            found.append(0 if size == replicas else size)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Listed(Family):
    """Layouts that were named one by one: the only variant of each is itself."""

    def variants(self, position: int) -> tuple[Layout, ...]:
        """The member as it is."""
        return (self.member(position),)

    def counts(self) -> Index:
        """One each."""
        return np.ones(len(self), dtype=np.int64)


def listed(layouts: Sequence[Layout], micro_batches: Sequence[int]) -> tuple[Family, ...]:
    """A family for every one of these layouts, with its number of micro-batches."""
    return tuple(
        Listed(
            exemplar=layout,
            pipeline=np.array([layout.pipeline_parallel]),
            virtual=np.array([layout.virtual_stages]),
            data=np.array([layout.data_parallel]),
            micro_batches=np.array([count]),
            schedule=(layout.schedule,),
            zero_stages=(layout.zero_stage,),
            sharding_groups=(layout.sharding_group,),
            rank_orders=(layout.rank_order,),
        )
        for layout, count in zip(layouts, micro_batches, strict=True)
    )
