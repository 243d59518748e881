"""Where experts stand: rules of expert and expert-tensor parallelism."""

from __future__ import annotations

from solver.layouts.layout import Layout
from solver.layouts.rule import Broken, rule
from solver.layouts.setting import Setting


def _experts(layout: Layout, setting: Setting) -> Broken:
    size = layout.expert_parallel
    if size > 1 and not setting.experts:
        return "expert_parallel", "The model has no experts."
    for experts in setting.experts:
        if experts % size:
            return "expert_parallel", (
                f"{experts} experts are not divisible by expert parallel {size}."
            )
    return None


EXPERTS = rule("experts", "Each rank holds whole experts.", "expert_parallel", _experts)


def _exchange_overlap(layout: Layout, setting: Setting) -> Broken:
    asked = setting.overlaps_exchange and layout.expert_parallel > 1
    if asked and layout.pipeline_parallel > 1 and layout.virtual_stages == 1:
        return "virtual_stages", (
            "Exchanging experts' tokens beside another micro-batch's products "
            "(training.overlap_expert_parallel) needs several chunks per device in a pipeline."
        )
    return None


EXCHANGE_OVERLAP = rule(
    "exchange-overlap",
    "A forward and a backward that do not wait for one another are at hand where devices hold "
    "several chunks (Megatron-LM, megatron/training/arguments.py).",
    "expert_parallel pipeline_parallel virtual_stages",
    _exchange_overlap,
)


def _experts_fold(layout: Layout, _: Setting) -> Broken:
    ranks = layout.tensor_parallel * layout.context_parallel * layout.data_parallel
    if ranks % layout.expert_parallel:
        return "expert_parallel", (
            f"Expert parallel {layout.expert_parallel} does not divide the {ranks} devices of a "
            "pipeline stage (tensor x context x data parallel)."
        )
    shards = layout.expert_tensor_parallel
    if shards and ranks % (layout.expert_parallel * shards):
        return "expert_tensor_parallel", (
            f"Expert parallel {layout.expert_parallel} times expert tensor parallel {shards} does "
            f"not divide the {ranks} devices of a pipeline stage."
        )
    return None


EXPERTS_FOLD = rule(
    "experts-fold",
    "Expert-parallel groups lie within the devices of a stage.",
    "expert_parallel tensor_parallel context_parallel data_parallel",
    _experts_fold,
)


def _expert_shards(layout: Layout, setting: Setting) -> Broken:
    shards = layout.expert_tensor_parallel
    for width in sorted(setting.expert_widths) if shards else ():
        if width % shards:
            return "expert_tensor_parallel", (
                f"The experts' width {width} is not divisible by expert tensor parallel {shards}."
            )
    return None


EXPERT_SHARDS = rule(
    "expert-shards",
    "Expert tensor parallelism divides the experts' matrices evenly.",
    "expert_tensor_parallel",
    _expert_shards,
)
