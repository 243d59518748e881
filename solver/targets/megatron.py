"""Megatron-LM: any contiguous split, one recompute setting for all ranks.

Read from Megatron-LM at d98e8a64 (core 0.20 development, August 2026):
megatron/training/arguments.py, core/transformer/transformer_config.py, core/transformer/
transformer_block.py and core/transformer/pipeline_parallel_layer_layout.py.
``--pipeline-model-parallel-layout`` takes any contiguous split over (virtual) stages. Recompute is
``full`` with ``uniform`` or ``block`` and one number, or ``selective`` with one list of modules.
Multi-token prediction allows groups of one layer only; groups that mix kinds of layer, dense ones
and such with experts, are not planned either.
Where experts' tokens are exchanged beside another micro-batch's products, neither full recompute
nor that of the module ``moe``, which would exchange again, is admitted (arguments.py).
Whatever a plan decides beyond that is said in plain words instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import ClassVar

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import Export, LayoutAnswer, Stage
from solver.recompute.choice import keep_all
from solver.recompute.policies import selective
from solver.request import RankOrder
from solver.schedules import SCHEDULES
from solver.targets.layers import (
    ENDS,
    PREDICTION,
    admits_layers,
    kinds_in_turn,
    layer_count,
    layer_kinds,
)
from solver.targets.planned import Planned, has_embedding, has_head, layers_of, predictions_of
from solver.targets.regimes import (
    Setting,
    first_layers,
    groups,
    one_choice,
    subsets,
)
from solver.targets.target import Target, flights
from solver.targets.words import Remarks, flags_export

_WITHIN = {"moe_act": "moe", "shared_experts": "moe"}
"""Modules that are parts of another one."""

_NEEDS = {
    "core_attn": frozenset({"attention_softmax"}),
    "mla_up_proj": frozenset({"query_up", "key_up"}),
}
"""Tensors without which a module's recompute does nothing: a fused attention keeps no scores, and
only latent attention has an up-projection."""


class MegatronLM(Target):
    """NVIDIA's Megatron-LM and Megatron-Core."""

    name = "megatron-lm"
    title = "Megatron-LM"
    settings_of: ClassVar[tuple[str, ...]] = ("megatron-bridge",)
    version = "core 0.20 (d98e8a64)"
    virtual_stages = True
    interleaving_group = True
    zero_stages: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    overlaps_exchange = True
    rank_orders: ClassVar[tuple[str, ...]] = tuple(RankOrder)
    context_methods: ClassVar[tuple[str, ...]] = ("ring", "all-gather", "all-to-all")

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """Full recompute of all layers, none, modules, the first layers, larger groups."""
        admits, held = admits_layers(costs, head_alone=True), flights(costs, layout)
        stages = layout.pipeline_parallel * layout.virtual_stages
        if costs.exchange_overlaps:
            lists = [chosen for chosen in effective_modules(costs) if "moe" not in chosen]
            return [
                one_choice(
                    costs, held, _selective(chosen), partial(selective, modules=chosen), admits
                )
                for chosen in sorted(lists, key=len, reverse=True)
            ] + [one_choice(costs, held, (), keep_all, admits)]
        most = layer_count(costs) - max(stages - 2, 0)
        predicts = any(block.name == PREDICTION for block in costs.blocks)
        single = predicts or len(layer_kinds(costs)) > 1
        in_full = groups(costs, 1 if single else most, _uniform, admits)
        found = [in_full[0], one_choice(costs, held, (), keep_all, admits)]
        for modules in effective_modules(costs):
            choose = partial(selective, modules=modules)
            found.append(one_choice(costs, held, _selective(modules), choose, admits))
        if not kinds_in_turn(costs):
            found += [
                first_layers(costs, held, number, _block(number), keep_all, admits)
                for number in range(1, most)
            ]
        return [*found, *in_full[1:]]

    def export(self, planned: Planned) -> Export:
        """Flags, beside those of the model and its data."""
        remarks = Remarks()
        arguments = [*layout_flags(planned), *split_flags(planned, remarks)]
        arguments += recompute_flags(planned, remarks)
        return flags_export(self, arguments, remarks)


def effective_modules(costs: PipelineCosts) -> list[tuple[str, ...]]:
    """Lists of modules that have an effect on this model."""
    names: set[str] = set()
    for kind in layer_kinds(costs):
        present = {op.name for op in costs.blocks[kind].ops}
        for module in costs.blocks[kind].modules:
            if module.name not in _NEEDS or _NEEDS[module.name] & present:
                names.add(module.name)
    return [
        chosen
        for chosen in subsets(sorted(names))
        if not any(_WITHIN.get(module) in chosen for module in chosen)
    ]


def _uniform(number: int) -> Setting:
    return _full("uniform", number)


def _block(number: int) -> Setting:
    return _full("block", number)


def _full(method: str, number: int) -> Setting:
    return (
        ("recompute_granularity", "full"),
        ("recompute_method", method),
        ("recompute_num_layers", number),
    )


def _selective(modules: tuple[str, ...]) -> Setting:
    return (("recompute_granularity", "selective"), ("recompute_modules", modules))


def megatron_export(layout: LayoutAnswer, stages: list[Stage], global_batch_size: int) -> Export:
    """The flags of a plan, and notes on what they leave out."""
    return MegatronLM().export(Planned(layout, stages, global_batch_size, micro_batches=1))


CONTEXT_METHODS = {"all-gather": "all_gather", "all-to-all": "a2a"}
"""``cp_comm_type`` where it is not p2p, the default (core/transformer/transformer_config.py)."""


def layout_flags(planned: Planned) -> list[str]:
    """Sizes, batches and sharding."""
    layout = planned.layout
    flags = [
        f"--tensor-model-parallel-size {layout.tensor_parallel}",
        f"--pipeline-model-parallel-size {layout.pipeline_parallel}",
        f"--context-parallel-size {layout.context_parallel}",
        f"--micro-batch-size {layout.micro_batch_size}",
        f"--global-batch-size {planned.global_batch_size}",
    ]
    if layout.expert_parallel > 1:
        flags.append(f"--expert-model-parallel-size {layout.expert_parallel}")
        if layout.expert_tensor_parallel != layout.tensor_parallel:
            flags.append(f"--expert-tensor-parallel-size {layout.expert_tensor_parallel}")
    if planned.overlaps_exchange:
        flags.append("--overlap-moe-expert-parallel-comm")
    if layout.context_parallel > 1 and layout.context_method in CONTEXT_METHODS:
        flags.append(f"--cp-comm-type {CONTEXT_METHODS[layout.context_method]}")
    if layout.rank_order == RankOrder.PIPELINE_INSIDE:
        flags.append("--use-tp-pp-dp-mapping")
    if layout.sequence_parallel:
        flags.append("--sequence-parallel")
    if layout.zero_stage == 1:
        flags.append("--use-distributed-optimizer")
    if layout.zero_stage >= 2:
        strategy = {2: "optim_grads", 3: "optim_grads_params"}[layout.zero_stage]
        flags += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {strategy}"]
    if layout.interleaving_group not in (None, layout.pipeline_parallel):
        group = layout.interleaving_group
        flags.append(f"--microbatch-group-size-per-virtual-pipeline-stage {group}")
    return flags


def split_flags(planned: Planned, remarks: Remarks) -> list[str]:
    """The split over stages, each spelt out."""
    layout = planned.layout
    if layout.pipeline_parallel == 1:
        return []
    if layout.schedule != "1f1b":
        title = SCHEDULES[layout.schedule].title
        remarks.lost.append(f"Megatron-LM has no {title} schedule; it would run 1F1B.")
    words = [stage_symbols(stage) for stage in planned.stages]
    if any(word == "E" for word in words):
        remarks.lost.append("A stage without layers is known to hang in some Megatron-LM releases.")
    return [f"--pipeline-model-parallel-layout '{folded(words)}'"]


def stage_symbols(stage: Stage) -> str:
    """A stage in the layout's symbols: E embedding, t layer, m prediction module, L loss."""
    word = "E" * has_embedding(stage)
    word += _times("t", layers_of(stage)) + _times("m", predictions_of(stage))
    return word + "L" * has_head(stage)


def _times(symbol: str, count: int) -> str:
    return symbol * count if count < 2 else f"{symbol}*{count}"


def folded(words: Iterable[str]) -> str:
    """Stages in order; runs of more than two equal ones as ``(word|)*n``."""
    text = ""
    for word, group in groupby(words):
        count = len(list(group))
        text += f"({word}|)*{count}" if count > 2 else f"{word}|" * count
    return text.removesuffix("|")


def recompute_flags(planned: Planned, remarks: Remarks) -> list[str]:
    """The recompute setting as flags."""
    setting = recompute_setting(planned, remarks)
    return [flag(field, value) for field, value in setting.items()]


def recompute_setting(planned: Planned, remarks: Remarks) -> dict[str, object]:
    """The setting; where the plan was not made for one, the one that it comes to, if any."""
    if planned.setting is not None:
        return planned.setting
    found, lost = _derived(planned.stages)
    remarks.lost += lost
    return dict(found)


def flag(field: str, value: object) -> str:
    """A field of the configuration as a flag."""
    if value is True:
        return f"--{field.replace('_', '-')}"
    shown = " ".join(value) if isinstance(value, tuple | list) else value
    return f"--{field.replace('_', '-')} {shown}"


def _derived(stages: list[Stage]) -> tuple[Setting, list[str]]:
    """One setting for all ranks if the plan is one; else words."""
    decided = [entry for stage in stages for entry in stage.recompute if entry.block not in ENDS]
    if not any(entry.recomputed for stage in stages for entry in stage.recompute):
        return (), []
    if decided and all(entry.whole for entry in decided):
        return _uniform(decided[0].group), []
    first = _first_layers(stages)
    if first is not None:
        return _block(first), []
    return (), [words for stage in stages if (words := _in_words(stage))]


def _first_layers(stages: list[Stage]) -> int | None:
    """The k of ``block`` if every stage recomputes its first min(k, layers) layers in full."""
    counts = []
    for stage in stages:
        layers = [entry for entry in stage.recompute if entry.block not in ENDS]
        if any(entry.recomputed and not entry.whole for entry in layers):
            return None
        total = sum(entry.count for entry in layers)
        counts.append((sum(entry.count for entry in layers if entry.whole), total))
    most = max((whole for whole, _ in counts), default=0)
    return most if all(whole == min(most, total) for whole, total in counts) else None


def _in_words(stage: Stage) -> str:
    said = [
        f"{entry.count} x {entry.block} recompute {', '.join(entry.recomputed)}"
        for entry in stage.recompute
        if entry.recomputed
    ]
    if not said:
        return ""
    return f"Not expressible by flags: stage {stage.index}: {'; '.join(said)}."
