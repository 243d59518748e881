"""When a parallel layout is legal: one small rule for each reason that frameworks refuse one.

The rules are Megatron-LM's (megatron/training/arguments.py, transformer_config.py), and for the
ZeRO stages DeepSpeed's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from solver.layouts.layout import Layout
from solver.layouts.schedules import (
    chunks_misfit,
    devices_misfit,
    micro_batches_misfit,
    takes_groups,
)
from solver.layouts.setting import Setting
from solver.request import ContextMethod

MOST_MICRO_BATCHES = 16_384
"""Micro-batches per pipeline and iteration that are simulated; runs have hundreds."""

MOST_PASSES = 1_048_576
"""Micro-batches times stages that are simulated."""


@dataclass(frozen=True)
class Violation:
    """A broken rule, by name and place in ``RULES``: the field to change, and what is wrong."""

    rule: str
    rank: int
    field: str
    detail: str


@dataclass(frozen=True)
class Rule:
    """One rule. It can be judged as soon as the layout's fields in ``needs`` are known.

    ``judge`` returns the field to change and what is wrong, or None.
    """

    name: str
    reason: str
    needs: frozenset[str]
    judge: Callable[[Layout, Setting], tuple[str, str] | None]


def violations(
    layout: Layout, setting: Setting, known: frozenset[str], newly: frozenset[str] | None = None
) -> Iterator[Violation]:
    """The rules that the known fields of ``layout`` break, in order.

    Fields that are not known hold 1. With ``newly``, only rules that need one of those fields.
    """
    for rank, rule in enumerate(RULES):
        if rule.needs <= known and (newly is None or not rule.needs or rule.needs & newly):
            found = rule.judge(layout, setting)
            if found is not None:
                yield Violation(rule.name, rank, *found)


def _devices(layout: Layout, setting: Setting) -> tuple[str, str] | None:
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


def _heads(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    for heads in setting.heads:
        if heads % layout.tensor_parallel:
            return "tensor_parallel", (
                f"{heads} attention heads are not divisible by tensor parallel "
                f"{layout.tensor_parallel}."
            )
    return None


def _key_value_heads(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    for heads in setting.key_value_heads:
        if heads % layout.tensor_parallel and layout.tensor_parallel % heads:
            return "tensor_parallel", (
                f"{heads} key/value heads can neither be divided among nor replicated evenly over "
                f"tensor parallel {layout.tensor_parallel}."
            )
    return None


def _feed_forward(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    for width in sorted(setting.widths):
        if width % layout.tensor_parallel:
            return "tensor_parallel", (
                f"The feed-forward width {width} is not divisible by tensor parallel "
                f"{layout.tensor_parallel}."
            )
    return None


def _context(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    parts = 2 * layout.context_parallel
    if layout.context_parallel > 1 and setting.sequence_length % parts:
        return "context_parallel", (
            f"The sequence length {setting.sequence_length} is not divisible by twice the context "
            f"parallel size, {parts}."
        )
    return None


def _context_method(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    if layout.context_parallel == 1:
        return None
    if layout.context_method == ContextMethod.RING and setting.windowed:
        return "context_method", (
            "Keys and values that go round a ring meet all queries; attention with a sliding "
            "window does not run so."
        )
    if layout.context_method != ContextMethod.ALL_TO_ALL:
        return None
    for kind, counts in (("attention", setting.heads), ("key/value", setting.key_value_heads)):
        for heads in sorted(counts):
            own = max(1, heads // layout.tensor_parallel)
            if own % layout.context_parallel:
                return "context_method", (
                    f"A device's {own} {kind} heads cannot be divided among "
                    f"{layout.context_parallel} context-parallel devices."
                )
    return None


def _sequence_needs_tensor(layout: Layout, _: Setting) -> tuple[str, str] | None:
    if layout.sequence_parallel and layout.tensor_parallel == 1:
        return "sequence_parallel", "Sequence parallelism needs tensor parallel above 1."
    return None


def _sequence(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    parts = layout.tensor_parallel * layout.context_parallel
    if layout.sequence_parallel and setting.sequence_length % parts:
        return "sequence_parallel", (
            f"The sequence length {setting.sequence_length} is not divisible by {parts}, the "
            "tensor times the context parallel size, as sequence parallelism demands."
        )
    return None


def _stages(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    layers = setting.architecture.num_layers
    stages = layout.pipeline_parallel * layout.virtual_stages
    if stages <= layers:
        return None
    field = "pipeline_parallel" if layout.pipeline_parallel > layers else "virtual_stages"
    return field, f"The model has {layers} layers, fewer than the {stages} stages."


def _interleaving(layout: Layout, _: Setting) -> tuple[str, str] | None:
    if layout.virtual_stages > 1 and layout.pipeline_parallel == 1:
        return "virtual_stages", "Virtual stages need pipeline parallel above 1."
    return None


def _interleaving_schedule(layout: Layout, _: Setting) -> tuple[str, str] | None:
    return chunks_misfit(layout.schedule, layout.virtual_stages)


def _even_pipeline(layout: Layout, _: Setting) -> tuple[str, str] | None:
    return devices_misfit(layout.schedule, layout.pipeline_parallel)


def _even_batches(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    count = layout.micro_batches(setting.global_batch_size)
    odd = micro_batches_misfit(layout.schedule, count)
    return None if odd is None else ("micro_batch_size", odd)


def _zero(layout: Layout, _: Setting) -> tuple[str, str] | None:
    if layout.zero_stage >= 2 and layout.pipeline_parallel > 1:
        return "zero_stage", (
            f"ZeRO stage {layout.zero_stage} cannot be combined with a pipeline: gradients would "
            "be reduced, or weights gathered, once per micro-batch."
        )
    return None


def _experts(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    size = layout.expert_parallel
    if size > 1 and not setting.experts:
        return "expert_parallel", "The model has no experts."
    for experts in setting.experts:
        if experts % size:
            return "expert_parallel", (
                f"{experts} experts are not divisible by expert parallel {size}."
            )
    return None


def _exchange_overlap(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    asked = setting.overlaps_exchange and layout.expert_parallel > 1
    if asked and layout.pipeline_parallel > 1 and layout.virtual_stages == 1:
        return "virtual_stages", (
            "Exchanging experts' tokens beside another micro-batch's products "
            "(training.overlap_expert_parallel) needs several chunks per device in a pipeline."
        )
    return None


def _experts_fold(layout: Layout, _: Setting) -> tuple[str, str] | None:
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


def _expert_shards(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    shards = layout.expert_tensor_parallel
    for width in sorted(setting.expert_widths) if shards else ():
        if width % shards:
            return "expert_tensor_parallel", (
                f"The experts' width {width} is not divisible by expert tensor parallel {shards}."
            )
    return None


def _sharding_group(layout: Layout, setting: Setting) -> tuple[str, str] | None:
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


def _rank_order(layout: Layout, setting: Setting) -> tuple[str, str] | None:
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


def _batch(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    if setting.global_batch_size % layout.data_parallel:
        return "data_parallel", (
            f"The global batch of {setting.global_batch_size} sequences is not divisible by data "
            f"parallel {layout.data_parallel}."
        )
    return None


def _micro_batch(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    if setting.global_batch_size % (layout.data_parallel * layout.micro_batch_size):
        return "micro_batch_size", (
            f"The global batch of {setting.global_batch_size} sequences is not divisible by micro-"
            f"batches of {layout.micro_batch_size} on {layout.data_parallel} data-parallel "
            "replicas."
        )
    return None


def _interleaving_rounds(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    if not takes_groups(layout.schedule, layout.virtual_stages):
        return None
    count = layout.micro_batches(setting.global_batch_size)
    group = layout.interleaving_group or layout.pipeline_parallel
    if group < layout.pipeline_parallel or 0 < count % group < layout.pipeline_parallel:
        if layout.interleaving_group:
            return "interleaving_group", (
                f"Groups of {group} micro-batches do not suit {count} micro-batches on "
                f"{layout.pipeline_parallel} pipeline devices: no group may be smaller than the "
                "pipeline."
            )
        return "micro_batch_size", (
            f"An interleaved schedule takes its micro-batches in rounds of the "
            f"{layout.pipeline_parallel} pipeline stages; {count} micro-batches are not a multiple."
        )
    return None


def _pipeline_work(layout: Layout, setting: Setting) -> tuple[str, str] | None:
    count = layout.micro_batches(setting.global_batch_size)
    passes = count * layout.pipeline_parallel * layout.virtual_stages
    if count <= MOST_MICRO_BATCHES and passes <= MOST_PASSES:
        return None
    return "micro_batch_size", (
        f"{count} micro-batches through {layout.pipeline_parallel * layout.virtual_stages} stages "
        f"are more than the {MOST_MICRO_BATCHES} micro-batches and {MOST_PASSES} passes that are "
        "simulated."
    )


def _rule(
    name: str,
    reason: str,
    needs: str,
    judge: Callable[[Layout, Setting], tuple[str, str] | None],
) -> Rule:
    return Rule(name, reason, frozenset(needs.split()), judge)


RULES: tuple[Rule, ...] = (
    _rule("devices", "Every device belongs to exactly one group of each kind.", "", _devices),
    _rule("heads", "Tensor parallelism gives each rank whole heads.", "tensor_parallel", _heads),
    _rule(
        "key-value-heads",
        "Each rank holds whole key/value heads, or all ranks copies of the same number.",
        "tensor_parallel",
        _key_value_heads,
    ),
    _rule(
        "feed-forward",
        "Tensor parallelism divides the feed-forward matrices evenly.",
        "tensor_parallel",
        _feed_forward,
    ),
    _rule(
        "context",
        "Each rank takes two chunks of the sequence, an early and a late one, so that causal "
        "attention is balanced.",
        "context_parallel",
        _context,
    ),
    _rule(
        "context-method",
        "An all-to-all gives each device whole heads of whole sequences; a ring has no sliding "
        "windows (Transformer Engine, attention/dot_product_attention/context_parallel.py).",
        "context_method context_parallel tensor_parallel",
        _context_method,
    ),
    _rule(
        "sequence-needs-tensor",
        "Sequence parallelism divides what tensor parallelism replicates.",
        "sequence_parallel tensor_parallel",
        _sequence_needs_tensor,
    ),
    _rule(
        "sequence",
        "Sequence parallelism divides the sequence evenly.",
        "sequence_parallel tensor_parallel context_parallel",
        _sequence,
    ),
    _rule(
        "stages",
        "Every stage holds at least one layer.",
        "pipeline_parallel virtual_stages",
        _stages,
    ),
    _rule(
        "interleaving",
        "Interleaving shortens the pipeline's bubble; without a pipeline there is none.",
        "pipeline_parallel virtual_stages",
        _interleaving,
    ),
    _rule(
        "interleaving-schedule",
        "A schedule is made for as many chunks per device as it places there.",
        "virtual_stages schedule",
        _interleaving_schedule,
    ),
    _rule(
        "even-pipeline",
        "Two pipelines in opposite directions pair each device with the one across.",
        "pipeline_parallel schedule",
        _even_pipeline,
    ),
    _rule(
        "zero",
        "ZeRO stages 2 and 3 communicate per micro-batch, which a pipeline multiplies.",
        "zero_stage pipeline_parallel",
        _zero,
    ),
    _rule("experts", "Each rank holds whole experts.", "expert_parallel", _experts),
    _rule(
        "exchange-overlap",
        "A forward and a backward that do not wait for one another are at hand where devices hold "
        "several chunks (Megatron-LM, megatron/training/arguments.py).",
        "expert_parallel pipeline_parallel virtual_stages",
        _exchange_overlap,
    ),
    _rule("batch", "Each replica takes the same number of sequences.", "data_parallel", _batch),
    _rule(
        "micro-batch",
        "Each replica takes whole micro-batches.",
        "data_parallel micro_batch_size",
        _micro_batch,
    ),
    _rule(
        "pipeline-work",
        "Every pass of an iteration is simulated.",
        "data_parallel micro_batch_size pipeline_parallel virtual_stages",
        _pipeline_work,
    ),
    _rule(
        "experts-fold",
        "Expert-parallel groups lie within the devices of a stage.",
        "expert_parallel tensor_parallel context_parallel data_parallel",
        _experts_fold,
    ),
    _rule(
        "interleaving-rounds",
        "An interleaved schedule works in rounds of as many micro-batches as stages.",
        "virtual_stages pipeline_parallel data_parallel micro_batch_size",
        _interleaving_rounds,
    ),
    _rule(
        "even-batches",
        "Two pipelines in opposite directions take half of the micro-batches each.",
        "schedule data_parallel micro_batch_size",
        _even_batches,
    ),
    _rule(
        "expert-shards",
        "Expert tensor parallelism divides the experts' matrices evenly.",
        "expert_tensor_parallel",
        _expert_shards,
    ),
    _rule(
        "sharding-group",
        "States are sharded over equal groups of replicas (Megatron-LM, "
        "num_distributed_optimizer_instances; PyTorch's hybrid sharding).",
        "sharding_group zero_stage data_parallel context_parallel tensor_parallel expert_parallel "
        "expert_tensor_parallel",
        _sharding_group,
    ),
    _rule(
        "rank-order",
        "Attention and experts of a pipeline stand on the same ranks (Megatron-LM, "
        "core/parallel_state.py).",
        "rank_order pipeline_parallel tensor_parallel context_parallel expert_parallel "
        "expert_tensor_parallel",
        _rank_order,
    ),
)
"""All rules, in the order in which they are reported."""
