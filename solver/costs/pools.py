"""Costs of a pipeline whose stages stand on pools of different devices.

Every stage has the blocks' costs of its own pool's device, links and memory. All sends take as long
as the slowest of them: inside a pool, or from one pool to the next, which crosses the network of
both. What an iteration pays once it pays as on the slowest pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solver.cluster.cluster import Cluster
from solver.cluster.collectives import send
from solver.costs.calibration import Calibration
from solver.costs.model import machine_of
from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.request import Training


def pooled_costs(
    pools: Sequence[Cluster],
    training: Training,
    layout: Layout,
    costs_on: Callable[[Cluster], PipelineCosts],
    calibration_on: Callable[[Cluster], Calibration],
) -> PipelineCosts:
    """The costs of a layout; one that names no pools stands for all that use some of them.

    Args:
        pools: The pools of the cluster.
        training: The run.
        layout: Its ``stage_pools`` say which stages stand where.
        costs_on: What the layout costs on one pool.
        calibration_on: The efficiencies of a pool's device.
    """
    assigned = layout.stage_pools or tuple((pool, 1) for pool in range(len(pools)))
    of_pool = {pool: costs_on(pools[pool]) for pool, _ in assigned}
    first = of_pool[assigned[0][0]]
    if len(of_pool) == 1:
        return first
    crossing = [
        send(
            costs.boundary_bytes,
            True,
            machine_of(pools[pool], training, calibration_on(pools[pool])).links,
        )
        for pool, costs in of_pool.items()
    ]
    return replace(
        first,
        send_seconds=max(*crossing, *(costs.send_seconds for costs in of_pool.values())),
        fixed_seconds=max(costs.fixed_seconds for costs in of_pool.values()),
        devices=tuple(of_pool[pool] for pool, stages in assigned for _ in range(stages)),
    )
