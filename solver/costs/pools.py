"""Costs of a pipeline whose stages stand on pools of different devices.

Every stage has the blocks' costs of its own pool's device, links and memory. All sends take as long
as the slowest of them: inside a pool, or from one pool to the next, which crosses the network of
both and passes all of their switches (``sharding.py``). What an iteration pays once it pays as on
the slowest pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solver.cluster.cluster import Cluster
from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout


def pooled_costs(
    pools: Sequence[Cluster],
    layout: Layout,
    costs_on: Callable[[Cluster, int], PipelineCosts],
) -> PipelineCosts:
    """The costs of a layout; one that names no pools stands for all that use some of them.

    Args:
        pools: The pools of the cluster.
        layout: Its ``stage_pools`` say which stages stand where.
        costs_on: What the layout costs on one pool, with so many of its stages there.
    """
    whole = tuple((pool, layout.pipeline_parallel) for pool in range(len(pools)))
    assigned = layout.stage_pools or whole
    of_pool = {pool: costs_on(pools[pool], stages) for pool, stages in assigned}
    first = of_pool[assigned[0][0]]
    if len(of_pool) == 1:
        return first
    return replace(
        first,
        send_seconds=max(costs.send_seconds for costs in of_pool.values()),
        fixed_seconds=max(costs.fixed_seconds for costs in of_pool.values()),
        devices=tuple(of_pool[pool] for pool, stages in assigned for _ in range(stages)),
    )
