"""Which ranks there are, in which order, and what of the states each holds."""

from __future__ import annotations

from solver.layouts.layout import Layout
from solver.layouts.rule import Broken, rule
from solver.layouts.setting import Setting


def _devices(layout: Layout, setting: Setting) -> Broken:
    product = 1
    for name in ("tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel"):
        size = getattr(layout, name)
        product *= size
        if product > setting.devices:
            return name, (
                f"The layout needs {product} devices or more; the cluster has {setting.devices}."
            )
        if setting.all_devices and setting.devices % product:
            return name, (
                f"The cluster's {setting.devices} devices cannot be divided into groups of "
                f"{product}."
            )
    return None


DEVICES = rule("devices", "Every device belongs to exactly one group of each kind.", "", _devices)


def _zero(layout: Layout, _: Setting) -> Broken:
    if layout.zero_stage >= 2 and layout.pipeline_parallel > 1:
        return "zero_stage", (
            f"ZeRO stage {layout.zero_stage} cannot be combined with a pipeline: gradients would "
            "be reduced, or weights gathered, once per micro-batch."
        )
    return None


ZERO = rule(
    "zero",
    "ZeRO stages 2 and 3 communicate per micro-batch, which a pipeline multiplies.",
    "zero_stage pipeline_parallel",
    _zero,
)


def _sharding_group(layout: Layout, setting: Setting) -> Broken:
    size, replicas = layout.sharding_group, layout.replicas
    if not size:
        return None
    if layout.zero_stage == 0 and size > 1:
        return "sharding_group", (
            f"ZeRO stage 0 shards nothing, so not over groups of {size} replicas either."
        )
    if replicas % size:
        return "sharding_group", (
            f"The {replicas} replicas (data x context parallel) cannot be divided into groups of "
            f"{size}."
        )
    if not setting.experts:
        return None
    held = replicas * layout.tensor_parallel // (layout.expert_parallel * layout.expert_shards)
    if held % layout.state_copies:
        return "sharding_group", (
            f"Experts are held by {held} devices each, which cannot be divided into the "
            f"{layout.state_copies} groups that a sharding group of {size} makes."
        )
    return None


SHARDING_GROUP = rule(
    "sharding-group",
    "States are sharded over equal groups of replicas (Megatron-LM, "
    "num_distributed_optimizer_instances; PyTorch's hybrid sharding).",
    "sharding_group zero_stage data_parallel context_parallel tensor_parallel expert_parallel "
    "expert_tensor_parallel",
    _sharding_group,
)


def _rank_order(layout: Layout, setting: Setting) -> Broken:
    if not layout.pipeline_inside or not setting.experts or layout.pipeline_parallel == 1:
        return None
    folded = layout.expert_parallel * layout.expert_shards
    ranks = layout.tensor_parallel * layout.context_parallel
    if folded == ranks:
        return None
    return "rank_order", (
        f"Pipelines of neighbouring ranks need as many devices per expert group ({folded}, expert "
        f"x expert tensor parallel) as per attention group ({ranks}, tensor x context parallel)."
    )


RANK_ORDER = rule(
    "rank-order",
    "Attention and experts of a pipeline stand on the same ranks (Megatron-LM, "
    "core/parallel_state.py).",
    "rank_order pipeline_parallel tensor_parallel context_parallel expert_parallel "
    "expert_tensor_parallel",
    _rank_order,
)
