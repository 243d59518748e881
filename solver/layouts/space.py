"""The space of layouts that a request leaves open, as families that share their blocks.

A request fixes a field, names several values for it, or leaves it open. What a block of the model
costs depends on few of the fields: tensor, context and expert parallelism, the micro-batch and what
the software shards per micro-batch. Layouts that agree in these form a *family*, whose members
differ in pipeline, chunks, replicas and schedule; they are held as arrays, for there are many. How
states are sharded over replicas and in which order ranks are counted is a *variant* of a member.

An open field may be

- tensor parallel: the divisors of the domain that fast links join;
- context parallel: whatever leaves a device ``LEAST_TOKENS`` tokens of a sequence; above 1 with
  micro-batches of one sequence only (more sequences are had with more replicas instead, whose
  attention needs no exchange);
- context method: all that suit heads and windows;
- expert parallel: the divisors of the number of experts; expert-tensor: 1, or as tensor parallel;
- pipeline parallel: any number of stages; virtual stages: as many chunks as there are layers for;
- data parallel: as many replicas as the devices allow, so that a layout may leave devices unused;
- micro-batch: the divisors of the batch, up to those that cannot fit;
- sequence parallel: on or off where there is tensor parallelism, on where there are experts too
  (Megatron-LM, core/transformer/moe/moe_layer.py);
- ZeRO stage: 0 or 1, without a pipeline and without experts also 2 and 3; sharding groups: every
  divisor of the replicas (under ZeRO 2 and 3 all of them, or without experts those of a node);
  rank order and schedule: all that are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import gcd

import numpy as np

from solver.cluster.cluster import Cluster
from solver.layouts.family import Family, Index
from solver.layouts.layout import Layout
from solver.layouts.pooled import PooledFamily, StagePools, assignments
from solver.layouts.rules import violations
from solver.layouts.rules_of_pipelines import MOST_MICRO_BATCHES, MOST_PASSES
from solver.layouts.schedules import runs_alone, takes_groups
from solver.layouts.setting import Setting, divisors
from solver.request import ContextMethod, LayoutRequest, RankOrder, ScheduleName
from solver.schedules import SCHEDULES

LEAST_TOKENS = 512
"""Tokens of a sequence on a device, below which free context parallelism does not go."""


_Table = tuple[Index, tuple[str, ...], tuple[StagePools, ...]]


def space(
    asked: LayoutRequest,
    setting: Setting,
    cluster: Cluster,
    zero_groups: tuple[tuple[int, ...], ...],
    usual_ranks: bool = False,
    may_fit: Callable[[Family], bool] = lambda _: True,
    beyond_devices: int = 0,
) -> tuple[Family, ...]:
    """All families of a request, those without a legal member left out.

    Args:
        asked: What is fixed, listed or open.
        setting: What the layouts must suit.
        cluster: The devices.
        zero_groups: ZeRO stages under which blocks cost the same.
        usual_ranks: Rank order and sharding group are as usual where they are open.
        may_fit: Whether a member of a family might fit; larger micro-batches are not listed where
            that is out of the question.
        beyond_devices: Members that need no more devices than that are left out.
    """
    found = _Space(asked, setting, cluster, zero_groups, usual_ranks, may_fit, beyond_devices)
    return tuple(found.families())


class _Space:
    def __init__(
        self,
        asked: LayoutRequest,
        setting: Setting,
        cluster: Cluster,
        zero_groups: tuple[tuple[int, ...], ...],
        usual_ranks: bool,
        may_fit: Callable[[Family], bool],
        beyond_devices: int,
    ) -> None:
        self._may_fit, self._beyond = may_fit, beyond_devices
        self._orders: tuple[RankOrder, ...] = asked.values("rank_order") or tuple(RankOrder)
        self._groups = asked.values("sharding_group")
        if usual_ranks or cluster.pools:  # neighbouring ranks are of one pool
            self._orders = asked.values("rank_order") or (RankOrder.DATA_INSIDE,)
        if usual_ranks:
            self._groups = self._groups or (0,)
        self._asked, self._setting, self._zero_groups = asked, setting, zero_groups
        self._domain, self._pools = cluster.domain_size, cluster.pools
        self._experts = bool(setting.experts)
        self._known_chunks: dict[tuple[str, tuple[int, ...]], tuple[Index, Index]] = {}
        self._known_tables: dict[tuple[int, tuple[int, ...], int, bool, bool], _Table] = {}
        schedules = asked.values("schedule") or (ScheduleName.ONE_F_ONE_B,)
        # 1F1B first: of two that are equally good the first is taken.
        self._schedules = sorted(
            (ScheduleName(name).value for name in schedules), key=lambda name: name != "1f1b"
        )
        # Without a pipeline all schedules are the same: one of those that run so stands for them.
        self._alone = next(filter(runs_alone, self._schedules), ScheduleName.ONE_F_ONE_B.value)

    def families(self) -> Iterator[Family]:
        """Every combination of what blocks depend on."""
        for tensor in self._tensor():
            for context, method in self._context(tensor):
                for split, (expert, shards) in itertools.product(
                    self._sequence_parallel(tensor, context), self._expert(tensor, context)
                ):
                    base = _layout(tensor, context, expert, shards, 1, split)
                    group = self._asked.interleaving_group or 0
                    yield from self._of(
                        replace(base, interleaving_group=group, context_method=method)
                    )

    # -- what blocks depend on --------------------------------------------------------------

    def _legal(self, names: str, **values: int | bool | str) -> bool:
        known = frozenset(names.split())
        layout = replace(_layout(1, 1, 1, 0, 1, False), **values)  # type: ignore[arg-type]
        return next(violations(layout, self._setting, known, known), None) is None

    def _tensor(self) -> list[int]:
        open_ones = divisors(min(self._domain, self._setting.devices))
        values = self._asked.values("tensor_parallel") or open_ones
        return [
            size
            for size in values
            if size <= self._setting.devices
            and self._legal("tensor_parallel", tensor_parallel=size)
        ]

    def _context(self, tensor: int) -> list[tuple[int, str]]:
        """Sizes, each with the methods that may be used for it."""
        names = "context_method context_parallel tensor_parallel"
        asked = self._asked.values("context_method") or tuple(ContextMethod)
        methods = [ContextMethod(method).value for method in asked]
        return [
            (size, method)
            for size in self._context_sizes(tensor)
            for method in (methods if size > 1 else methods[:1])
            if self._legal(
                names, tensor_parallel=tensor, context_parallel=size, context_method=method
            )
        ]

    def _context_sizes(self, tensor: int) -> list[int]:
        length = self._setting.sequence_length
        values = self._asked.values("context_parallel")
        if values is None:
            values = tuple(d for d in divisors(length) if d == 1 or length >= d * LEAST_TOKENS)
        return [
            size
            for size in values
            if tensor * size <= self._setting.devices
            and self._legal("context_parallel", context_parallel=size)
        ]

    def _needless(self, context: int, micro_batch: int) -> bool:
        """Whether more replicas with smaller micro-batches do the same without an exchange."""
        open_ones = ("context_parallel", "micro_batch_size", "data_parallel")
        if any(self._asked.values(name) is not None for name in open_ones):
            return False
        return context > 1 and micro_batch > 1

    def _sequence_parallel(self, tensor: int, context: int) -> list[bool]:
        values = self._asked.values("sequence_parallel")
        if values is None:
            values = (True,) if self._experts else (True, False)
        names = "sequence_parallel tensor_parallel context_parallel"
        sizes = {"tensor_parallel": tensor, "context_parallel": context}
        legal = [value for value in values if self._legal(names, sequence_parallel=value, **sizes)]
        open_one = self._asked.values("sequence_parallel") is None
        return legal or ([False] if open_one else [])

    def _expert(self, tensor: int, context: int) -> Iterator[tuple[int, int]]:
        """Expert and expert-tensor parallel, 0 for as many as tensor parallel."""
        common = gcd(*self._setting.experts) if self._experts else 1
        shards = self._asked.values("expert_tensor_parallel")
        for expert in self._asked.values("expert_parallel") or divisors(common):
            if not self._legal("expert_parallel", expert_parallel=expert):
                continue
            for split in shards or (sorted({1, tensor}) if self._experts else [tensor]):
                if tensor * context * split and self._legal(
                    "expert_tensor_parallel", expert_tensor_parallel=split
                ):
                    yield expert, 0 if split == tensor else split

    # -- members ----------------------------------------------------------------------------

    def _of(self, base: Layout) -> Iterator[Family]:
        """The families of one kind of block: one per group of ZeRO stages and micro-batch.

        Where nothing fits, nothing does with a multiple of the micro-batch, which holds more (and
        has no more replicas on as many devices, so that what is left out changes nothing).
        """
        asked_zero = self._asked.values("zero_stage")
        sizes = self._asked.values("micro_batch_size") or divisors(self._setting.global_batch_size)
        for group in self._zero_groups:
            if asked_zero is not None:
                stages = tuple(z for z in group if z in asked_zero)
            else:
                stages = () if self._experts and max(group) >= 2 else group
            too_large: list[int] = []
            for size in sizes if stages else ():
                if self._needless(base.context_parallel, size):
                    continue
                if any(size % other == 0 for other in too_large):
                    continue
                found = list(self._family(replace(base, micro_batch_size=size), stages))
                if found and not any(self._may_fit(family) for family in found):
                    too_large.append(size)
                yield from found

    def _family(self, base: Layout, zero_stages: tuple[int, ...]) -> Iterator[Family]:
        sharded = max(zero_stages) >= 2
        replicas = self._replicas(base)
        chunked = self._setting.overlaps_exchange and base.expert_parallel > 1
        key = (base.devices, tuple(replicas), base.micro_batch_size, sharded, chunked)
        if key not in self._known_tables:
            self._known_tables[key] = self._table(base, replicas, sharded, chunked)
        table, names, assigned = self._known_tables[key]
        if not names:
            return
        # Sharding per micro-batch depends on the replicas: a family for each number and group.
        for data in np.unique(table[2]).tolist() if sharded else [None]:
            mine = slice(None) if data is None else table[2] == data
            chosen, schedule = table[:, mine], names
            if data is not None:
                schedule = tuple(
                    name for name, at in zip(names, table[2], strict=True) if at == data
                )
            exemplar = replace(
                base,
                data_parallel=int(chosen[2].max()),
                zero_stage=max(zero_stages),
                schedule=self._alone,
            )
            for group in self._groups_per_micro_batch(exemplar) if sharded else [None]:
                found = Family(
                    exemplar=replace(exemplar, sharding_group=_group(group, exemplar)),
                    pipeline=chosen[0],
                    virtual=chosen[1],
                    data=chosen[2],
                    micro_batches=chosen[3],
                    schedule=schedule,
                    zero_stages=zero_stages,
                    sharding_groups=(self._groups if group is None else (group,)),
                    rank_orders=tuple(RankOrder(order).value for order in self._orders),
                    several_experts=self._experts,
                )
                if self._pools:
                    of_member = tuple(assigned[at] for at in chosen[4])
                    found = PooledFamily(**vars(found), assigned=of_member)
                yield found

    def _table(self, base: Layout, replicas: list[int], sharded: bool, chunked: bool) -> _Table:
        """Members by pipeline, chunks and replicas: rows as ``_with_schedule``, the schedule of
        each, and the pools of every place. ``chunked``: pipelines have several chunks per device.
        """
        pipeline, data, assigned = self._pipelines(base, replicas, sharded)
        rows = [
            self._with_schedule(name, pipeline, data, base.micro_batch_size)
            for name in self._schedules
        ]
        if chunked:
            rows = [row[:, (row[0] == 1) | (row[1] > 1)] for row in rows]
        if assigned:
            several = np.array([len({pool for pool, _ in one}) > 1 for one in assigned])
            rows = [
                row[:, ~several[row[4]] | ((row[1] == 1) & (not SCHEDULES[name].even))]
                for name, row in zip(self._schedules, rows, strict=True)
            ]
        names = np.repeat(np.arange(len(rows)), [row.shape[1] for row in rows])
        table = np.concatenate(rows, axis=1)
        order = np.lexsort(table[[2, 1, 0]])
        return table[:, order], tuple(self._schedules[at] for at in names[order]), assigned

    def _groups_per_micro_batch(self, exemplar: Layout) -> list[int]:
        """Sharding groups where weights move with every micro-batch: all replicas, or a node's."""
        replicas = exemplar.replicas
        if self._groups is not None:
            return [size or replicas for size in self._groups if replicas % (size or 1) == 0]
        if self._experts:
            return [replicas]
        near = max(1, self._domain // exemplar.tensor_parallel)
        local = max(size for size in divisors(replicas) if size <= near)
        return sorted({replicas, local} - ({1} if replicas > 1 else set()), reverse=True)

    def _pipelines(
        self, base: Layout, replicas: list[int], sharded: bool
    ) -> tuple[Index, Index, tuple[StagePools, ...]]:
        """Pipeline and data parallel, each pair once, or once for each assignment to pools."""
        if self._pools:
            return self._on_pools(base, replicas, sharded)
        pipeline, data = self._alike(base, replicas, sharded)
        beyond = base.devices * pipeline * data > self._beyond
        return pipeline[beyond], data[beyond], ()

    def _on_pools(
        self, base: Layout, replicas: list[int], sharded: bool
    ) -> tuple[Index, Index, tuple[StagePools, ...]]:
        layers = 1 if sharded else self._setting.architecture.num_layers
        found = list(assignments(self._pools, base.devices, replicas, layers, self._asked))
        pipeline = [sum(stages for _, stages in assigned) for assigned, _ in found]
        return (
            np.array(pipeline, dtype=np.int64),
            np.array([count for _, count in found], dtype=np.int64),
            tuple(assigned for assigned, _ in found),
        )

    def _alike(self, base: Layout, suiting: list[int], sharded: bool) -> tuple[Index, Index]:
        setting, room = self._setting, self._setting.devices // base.devices
        values = self._asked.values("pipeline_parallel")
        most = min(room, setting.architecture.num_layers)
        stages = range(1, most + 1) if values is None else [p for p in values if p <= most]
        pipeline = np.array([p for p in stages if p == 1 or not sharded], dtype=np.int64)
        replicas = np.array(suiting, dtype=np.int64)
        if not len(pipeline) or not len(replicas):
            return np.zeros((2, 0), dtype=np.int64)[0], np.zeros(0, dtype=np.int64)
        if self._asked.values("data_parallel") is None:
            place = np.searchsorted(replicas, room // pipeline, side="right") - 1
            return pipeline[place >= 0], replicas[place[place >= 0]]
        pairs = np.array([(p, d) for p in pipeline for d in replicas if p * d <= room])
        pairs = pairs.reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _replicas(self, base: Layout) -> list[int]:
        """Numbers of replicas that suit the batch and the experts, ascending."""
        batch, size = self._setting.global_batch_size, base.micro_batch_size
        if batch % size:
            return []
        values = self._asked.values("data_parallel") or divisors(batch // size)
        ranks, fold = base.tensor_parallel * base.context_parallel, base.expert_parallel
        fold *= base.expert_shards if self._experts or base.expert_tensor_parallel else 1
        return [d for d in values if (batch // size) % d == 0 and ranks * d % fold == 0]

    def _with_schedule(self, name: str, pipeline: Index, data: Index, size: int) -> Index:
        """Rows of pipeline, virtual, data, micro-batches and place that one schedule can run."""
        setting, group = self._setting, self._asked.interleaving_group or 0
        place, chunks = self._chunks(name, tuple(pipeline.tolist()))
        stages, replicas = pipeline[place], data[place]
        counts = setting.global_batch_size // (replicas * size)
        legal = (counts <= MOST_MICRO_BATCHES) & (counts * stages * chunks <= MOST_PASSES)
        turn = np.full_like(stages, group) if group else stages
        rest = counts % np.maximum(turn, 1)
        rounds = (stages > 1) & (turn >= stages) & ((rest == 0) | (rest >= stages))
        legal &= (chunks == 1) | (rounds if takes_groups(name, 2) else stages > 1)
        if SCHEDULES[name].even:
            legal &= (stages % 2 == 0) & (counts % 2 == 0)
        if name != self._alone:
            legal &= stages > 1
        rows = (stages, chunks, replicas, counts, place)
        return np.stack([row[legal] for row in rows])

    def _chunks(self, name: str, pipeline: tuple[int, ...]) -> tuple[Index, Index]:
        """For every place in ``pipeline`` and number of chunks that its layers suffice for."""
        key = (name, pipeline)
        if key not in self._known_chunks:
            layers = self._setting.architecture.num_layers
            names = "schedule virtual_stages"
            values = self._asked.values("virtual_stages") or range(1, layers + 1)
            alone = self._legal(names, schedule=name, virtual_stages=1)
            if not self._asked.values("virtual_stages") and alone:
                values = (1,)
            runs = [v for v in values if self._legal(names, schedule=name, virtual_stages=v)]
            pairs = [(at, v) for at, p in enumerate(pipeline) for v in runs if p * v <= layers]
            table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            self._known_chunks[key] = (table[:, 0], table[:, 1])
        return self._known_chunks[key]


def _group(size: int | None, layout: Layout) -> int:
    """A sharding group as a layout has it: 0 for all replicas."""
    return 0 if size is None or size == layout.replicas else size


def _layout(
    tensor: int, context: int, expert: int, shards: int, micro_batch: int, split: bool
) -> Layout:
    return Layout(tensor, 1, context, expert, 1, 1, micro_batch, split, 1, "1f1b", shards)
