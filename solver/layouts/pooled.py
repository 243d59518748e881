"""Layouts whose pipelines run over several pools of devices, and what makes them legal.

A stage stands in one pool with all its replicas, and the stages of a pool follow one another. Which
pool comes first and how many stages each has is a choice beside the others: pools may be left out,
and devices of a pool unused. Stages that share devices all stand in one pool.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.cluster.cluster import Cluster
from solver.errors import BadRequest, IllegalLayout
from solver.layouts.family import Family, Index
from solver.layouts.layout import Layout
from solver.layouts.schedules import runs_alone, shares_devices
from solver.request import LayoutRequest

StagePools = tuple[tuple[int, int], ...]
"""Pool and number of stages, in the order of the pipeline."""

MOST_SHARES = 4096
"""Numbers of stages per pool that are told apart for one family; with more, a pool that is used is
used as far as its devices go.
"""


@dataclass(frozen=True, eq=False)
class PooledFamily(Family):
    """A family whose members differ in their pools too: ``assigned`` has an entry per member."""

    assigned: tuple[StagePools, ...] = ()

    def member(self, position: int) -> Layout:
        """The member at a position, in the variant that needs least memory."""
        return replace(super().member(position), stage_pools=self.assigned[position])

    def pool_of_stage(self) -> Index:
        """The pool of every stage, shape (members, most stages); -1 beyond the last."""
        found = np.full((len(self), int(self.pipeline.max())), -1, dtype=np.int64)
        for row, assigned in zip(found, self.assigned, strict=True):
            row[: sum(stages for _, stages in assigned)] = np.repeat(*np.array(assigned).T)
        return found


def assignments(
    pools: Sequence[Cluster],
    group_devices: int,
    replicas: Sequence[int],
    layers: int,
    asked: LayoutRequest,
) -> Iterator[tuple[StagePools, int]]:
    """Every assignment of stages to pools with the number of replicas that it leaves room for.

    Args:
        pools: The pools.
        group_devices: Devices of one replica of a stage.
        replicas: Numbers of replicas that suit the batch, ascending.
        layers: The most stages there can be.
        asked: May fix the number of stages, the replicas or the assignment.
    """
    room = [pool.devices // group_devices for pool in pools]
    wanted, fixed = asked.values("pipeline_parallel"), asked.values("data_parallel")
    for shares in _shares(room, replicas, layers):
        total = sum(shares)
        if wanted is not None and total not in wanted:
            continue
        most = min(r // share for r, share in zip(room, shares, strict=True) if share)
        fitting = [count for count in replicas if count <= most]
        used = [(pool, share) for pool, share in enumerate(shares) if share]
        for order in itertools.permutations(used):
            if asked.stage_pools is None or order == tuple(asked.stage_pools):
                for count in fitting[-1:] if fixed is None else fitting:
                    yield order, count


def _shares(room: Sequence[int], replicas: Sequence[int], layers: int) -> Iterator[tuple[int, ...]]:
    """Stages on each pool, not all of them zero."""
    each = [range(min(most, layers) + 1) for most in room]
    size = int(np.prod([len(stages) for stages in each]))
    if size > MOST_SHARES:
        full = {tuple(min(most // count, layers) for most in room) for count in replicas}
        found = {
            tuple(stages if used else 0 for stages, used in zip(shares, uses, strict=True))
            for shares in full
            for uses in itertools.product((True, False), repeat=len(room))
        }
    else:
        found = set(itertools.product(*each))
    yield from sorted(shares for shares in found if 0 < sum(shares) <= layers)


def on_pools(layout: Layout, asked: LayoutRequest, pools: Sequence[Cluster]) -> Layout:
    """An evaluation's layout with the pools that it is asked for on.

    Raises:
        BadRequest: It does not say where its stages stand.
        IllegalLayout: They stand nowhere, or want more devices than a pool has.
    """
    field = "layout.stage_pools"
    if asked.stage_pools is None:
        raise BadRequest(
            "The cluster has several pools of devices, and the layout does not say which stages "
            "stand on which.",
            field=field,
            hint="Give pairs of a pool's number and its stages, such as [[0, 4], [1, 8]].",
        )
    stages = sum(count for _, count in asked.stage_pools)
    if stages != layout.pipeline_parallel:
        raise IllegalLayout(
            f"The pools have {stages} stages, the pipeline {layout.pipeline_parallel}.",
            field=field,
            hint=f"Give {layout.pipeline_parallel} in all.",
        )
    if len({pool for pool, _ in asked.stage_pools}) > 1:
        refuse_shared_devices(layout.schedule, layout.virtual_stages)
    each = layout.devices // layout.pipeline_parallel
    for pool, count in asked.stage_pools:
        if pool >= len(pools):
            raise IllegalLayout(
                f"There is no pool {pool}.",
                field=field,
                hint=f"Pools are counted from 0 to {len(pools) - 1}.",
            )
        if count * each > pools[pool].devices:
            raise IllegalLayout(
                f"{count} stages of {each} devices are more than the {pools[pool].devices} of "
                f"pool {pool}.",
                field=field,
                hint=f"Give at most {pools[pool].devices // each}.",
            )
    return replace(layout, stage_pools=tuple(asked.stage_pools))


def refuse_shared_devices(schedule: str, chunks: int) -> None:
    """Refuse several stages per device where devices differ.

    Raises:
        IllegalLayout: There are.
    """
    if not shares_devices(schedule, chunks):
        return
    interleaved = runs_alone(schedule)
    raise IllegalLayout(
        "Pipelines over several pools are planned with one stage per device.",
        field="layout.virtual_stages" if interleaved else "layout.schedule",
        hint="Nearest legal value: 1." if interleaved else "Ask for 1f1b, gpipe or zb-h1.",
    )
