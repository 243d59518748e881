"""A plan as a grid of cells, each a few nodes: pipeline stages across, replicas down.

Ranks follow Megatron-LM's order tp-cp-ep-dp-pp, so consecutive nodes hold the replicas of a stage
before those of the next. A cell is as many nodes as a tensor-parallel group (or an expert-parallel
group that fits an NVLink domain) needs; its nodes stay together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from solver.costs.pipeline import PipelineCosts
from solver.layouts import Layout

Profile = tuple[int, ...]
"""Cells of a leaf on every stage."""


@dataclass(frozen=True)
class Grid:
    """``stages`` columns of ``rows`` cells of ``unit`` nodes each.

    ``group_bytes``: what every crossing of a leaf's border adds to an iteration for the data-
    parallel rings of one column; a ring that touches k > 1 leafs crosses k borders. ``edge_bytes``:
    what a pair of neighbouring stages of one row exchanges.
    """

    stages: int
    rows: int
    unit: int
    group_bytes: float
    edge_bytes: float

    @property
    def cells(self) -> int:
        """All cells."""
        return self.stages * self.rows


def profile_cost(grid: Grid, profile: Profile) -> float:
    """What a leaf with this profile costs, bytes, with nothing saved counted as 0.

    Its cells are a part of a ring on some stages, and keep pairs of neighbouring stages together.
    """
    partial = sum(0 < cells < grid.rows for cells in profile)
    kept = sum(map(min, profile, profile[1:]))
    return grid.group_bytes * partial - grid.edge_bytes * kept


def grid_of(
    layout: Layout, costs: PipelineCosts, devices_per_node: int, domain_devices: int
) -> Grid:
    """The grid of a layout on nodes of ``devices_per_node``; ``domain_devices`` share NVLink.

    Traffic of an iteration, per device: a data-parallel ring passes (d - 1) / d of its gradients
    and of its weights once (reduce-scatter and all-gather); a boundary tensor goes to and fro for
    every micro-batch and virtual stage.
    """
    together = layout.tensor_parallel
    experts = layout.expert_shards * layout.expert_parallel
    if layout.expert_parallel > 1 and experts <= max(domain_devices, devices_per_node):
        together = math.lcm(together, experts)
    unit = max(1, math.ceil(together / devices_per_node))
    width = unit * devices_per_node
    per_stage = layout.devices // layout.pipeline_parallel
    replicas = layout.data_parallel * layout.context_parallel
    if per_stage % width == 0:
        stages, rows = layout.pipeline_parallel, per_stage // width
    else:
        # Several stages in one cell: a chain of cells, whose rings lie inside or across neighbours.
        stages, rows = math.ceil(layout.devices / width), 1
    passes = 2.0 * costs.micro_batches * layout.virtual_stages
    edge = width * costs.boundary_bytes * passes if layout.pipeline_parallel > 1 else 0.0
    states = sum(
        costs.blocks[kind].states.weights + costs.blocks[kind].states.gradients
        for kind in costs.sequence
    )
    group = width * states / layout.pipeline_parallel * (replicas - 1) / replicas
    if rows == 1 and per_stage > width:
        edge += group
    return Grid(stages, rows, unit, group if rows > 1 else 0.0, edge)
