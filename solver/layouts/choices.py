"""What a layout has chosen: the value of each field that a request may leave open.

In some layouts a field means nothing: a schedule without a pipeline, a rank order where pipelines
or replicas are one. Of layouts that differ in such a field only one is searched. It stands for all
of them, which is said by the value ``ANY``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from solver.layouts.layout import Layout

Value = int | str | bool

ANY = None
"""In place of a value: the layout is the same whatever it is."""

SHARED_FIELDS = (
    "tensor_parallel",
    "context_parallel",
    "expert_parallel",
    "micro_batch_size",
    "sequence_parallel",
)
"""Fields with a meaning in every layout, in which the members of a family agree."""

FIELDS = (
    "tensor_parallel",
    "context_parallel",
    "context_method",
    "expert_parallel",
    "expert_tensor_parallel",
    "micro_batch_size",
    "sequence_parallel",
    "pipeline_parallel",
    "virtual_stages",
    "data_parallel",
    "schedule",
    "zero_stage",
    "sharding_group",
    "rank_order",
    "stage_pools",
)
"""Fields of a request's layout that say which layouts are searched, in the order of answers."""


def shared_values(layout: Layout) -> Iterator[tuple[str, Value | None]]:
    """Of the fields in which the members of a family agree."""
    for name in SHARED_FIELDS:
        yield name, getattr(layout, name)
    yield "expert_tensor_parallel", layout.expert_shards
    yield "context_method", layout.context_method if layout.context_parallel > 1 else ANY


def values_of(layout: Layout) -> Iterator[tuple[str, Value | None]]:
    """Every field that means something, with its value or ``ANY``.

    A sharding group is told as the number of its replicas; where nothing is sharded there is none.
    """
    yield from shared_values(layout)
    yield "pipeline_parallel", layout.pipeline_parallel
    yield "virtual_stages", layout.virtual_stages
    yield "data_parallel", layout.data_parallel
    yield "schedule", layout.schedule if layout.pipeline_parallel > 1 else ANY
    yield "zero_stage", layout.zero_stage
    if layout.zero_stage:
        yield "sharding_group", layout.sharding_group or layout.replicas
    yield "rank_order", layout.rank_order if orders_differ(layout) else ANY
    if layout.stage_pools:
        yield "stage_pools", pools_value(layout.stage_pools)


def orders_differ(layout: Layout) -> bool:
    """Whether ranks can be counted in orders that differ."""
    return layout.pipeline_parallel > 1 and layout.data_parallel > 1


def folds_alike(layout: Layout) -> bool:
    """Whether an expert group takes as many devices as an attention group.

    Where there are experts, pipelines of neighbouring ranks need that.
    """
    folded = layout.expert_parallel * layout.expert_shards
    return folded == layout.tensor_parallel * layout.context_parallel


def pools_value(stage_pools: tuple[tuple[int, int], ...]) -> str:
    """Where stages stand, as a request writes it."""
    return json.dumps(stage_pools)
