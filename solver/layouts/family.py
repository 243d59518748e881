"""Layouts that share their blocks, as arrays, and the variants that each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

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
            for order in self._orders(member)
            for zero in sorted(self.zero_stages, reverse=True)
            for group in self._groups(member, zero)
        )

    def counts(self) -> Index:
        """How many variants each member has, shape (members,)."""
        known: dict[tuple[int, bool], int] = {}
        found = np.empty(len(self), dtype=np.int64)
        for position, key in enumerate(
            zip(self.data.tolist(), (self.pipeline == 1).tolist(), strict=True)
        ):
            if key not in known:
                member = self.member(position)
                groups = sum(len(self._groups(member, zero)) for zero in self.zero_stages)
                known[key] = len(self._orders(member)) * groups
            found[position] = known[key]
        return found

    def _orders(self, member: Layout) -> Sequence[str]:
        """Orders that differ for this member (``rules.py`` says which a framework can run)."""
        if member.pipeline_parallel == 1 or member.data_parallel == 1:
            return self.rank_orders[:1]
        folded = member.expert_parallel * member.expert_shards
        if self.several_experts and folded != member.tensor_parallel * member.context_parallel:
            inside = RankOrder.PIPELINE_INSIDE.value
            return [order for order in self.rank_orders if order != inside]
        return self.rank_orders

    def _groups(self, member: Layout, zero_stage: int) -> list[int]:
        """Sharding groups, 0 for all replicas, largest first."""
        if self.sharding_groups == (0,):
            return [0]
        if zero_stage == 0:
            return [0] if self.sharding_groups is None else []
        replicas = member.replicas
        found = []
        for size in reversed(divisors(replicas)):
            if self.sharding_groups is not None and size not in self.sharding_groups:
                continue
            if size == 1 < replicas and self.sharding_groups is None:
                continue  # sharded over one: ZeRO 0
            if self._expert_replicas(member) % (replicas // size) == 0:
                found.append(0 if size == replicas else size)
        return found

    def _expert_replicas(self, member: Layout) -> int:
        if not self.several_experts:
            return member.replicas
        ranks = member.replicas * member.tensor_parallel
        return ranks // (member.expert_parallel * member.expert_shards)


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
