"""MindSpeed(-LLM): Megatron's plans on Ascend, with recompute of norms and activation functions.

Read from MindSpeed at 028de58c (on Megatron core_v0.12.1) and MindSpeed-LLM at c77308a1 (2026).
``--recompute-norm`` and ``--recompute-activation-function`` stand alone, together, or beside full
recompute by ``block``, whose layers come first; neither goes with ``selective`` or ``uniform``.
They are used for all layers here, not with their own numbers of layers.

``--recompute-in-advance`` recomputes ahead of the gradient (docs/features/
recompute_independent_pipelining.md, ripipe_schedules.py): each R(s, m) stands just before its
B(s, m), on every virtual stage but the last, which keeps everything. It needs virtual stages of one
layer each (it is silently off with more), full recompute by ``block``, micro-batches that are a
multiple of the pipeline, and takes no layout of layers by stage. ``--recompute-in-bubble``
recomputes the first chunk for some micro-batches and keeps it for others; a plan does the same for
all, so that it is never planned.
"""

from __future__ import annotations

from itertools import pairwise

from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.menu import Menu, Part
from solver.partition.regime import Regime
from solver.partition.ruled_menu import AheadMenu
from solver.plan import Export
from solver.recompute.choice import keep_all
from solver.targets.layers import (
    PREDICTION,
    admits_layers,
    framed,
    kinds_in_turn,
    layer_count,
    layer_kinds,
)
from solver.targets.megatron import MegatronLM, layout_flags, recompute_flags, split_flags
from solver.targets.planned import Planned, context_word
from solver.targets.regimes import (
    Setting,
    dropping,
    first_layers,
    in_full,
    one_choice,
    subsets,
)
from solver.targets.target import flights
from solver.targets.words import Remarks, flags_export


class MindSpeed(MegatronLM):
    """Huawei's MindSpeed and MindSpeed-LLM, their Megatron backend."""

    name = "mindspeed"
    title = "MindSpeed"
    settings_of = ("megatron-lm", "megatron-bridge")
    version = "028de58c (Megatron core_v0.12.1)"
    interleaving_group = False
    zero_stages = (0, 1)
    overlaps_exchange = False
    context_methods = ("ring", "all-to-all")
    places_recompute = (
        "recomputes on demand but for --recompute-in-advance, which needs several chunks per "
        "device with one layer in each, and for --recompute-in-bubble, which recomputes a chunk "
        "for some micro-batches only, as no plan does"
    )
    stalls = (
        "with one layer in each chunk it recomputes ahead of the gradient "
        "(--recompute-in-advance) where that is faster"
    )

    def recomputes_ahead(self, layout: Layout, layers: int) -> bool:
        """Only where every virtual stage holds one layer."""
        chunks = layout.virtual_stages
        return chunks > 1 and layout.pipeline_parallel * chunks == layers

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """Megatron's, and norms and activation functions alone or beside the first layers."""
        found = super().regimes(costs, layout)
        found += _in_advance(costs, layout)
        admits, held = admits_layers(costs, head_alone=True), flights(costs, layout)
        stages = layout.pipeline_parallel * layout.virtual_stages
        most = layer_count(costs) - max(stages - 2, 0)
        parts = _parts(costs)
        for chosen in subsets(sorted(parts)):
            choose = dropping(frozenset().union(*(parts[name] for name in chosen)))
            words: Setting = tuple((f"recompute_{name}", True) for name in chosen)
            found.append(one_choice(costs, held, words, choose, admits))
            if kinds_in_turn(costs):
                continue
            for number in range(1, most):
                setting: Setting = (
                    ("recompute_granularity", "full"),
                    ("recompute_method", "block"),
                    ("recompute_num_layers", number),
                    *words,
                )
                found.append(first_layers(costs, held, number, setting, choose, admits))
        return found

    def export(self, planned: Planned) -> Export:
        """Flags, beside those of the model and its data."""
        remarks = Remarks()
        arguments = _megatron_flags(planned)
        if (planned.setting or {}).get("recompute_in_advance"):
            arguments.append("--num-layers-per-virtual-pipeline-stage 1")
        else:
            arguments += split_flags(planned, remarks)
        arguments += _context_flags(planned, remarks)
        arguments += recompute_flags(planned, remarks)
        return flags_export(self, arguments, remarks)


def _in_advance(costs: PipelineCosts, layout: Layout) -> list[Regime]:
    """Recompute ahead of the gradient, with its one split, where it does anything."""
    layers, stages = layer_count(costs), layout.pipeline_parallel * layout.virtual_stages
    kinds = layer_kinds(costs)
    places = [at for at, kind in enumerate(costs.sequence) if kind in kinds]
    even = layout.virtual_stages > 1 and layers == stages
    predicts = any(costs.blocks[kind].name == PREDICTION for kind in costs.sequence)
    if not even or predicts or costs.micro_batches % layout.pipeline_parallel:
        return []
    edges = [0, *places[1:], len(costs.sequence)]
    setting: Setting = (
        ("recompute_granularity", "full"),
        ("recompute_method", "block"),
        ("recompute_num_layers", 1),
        ("recompute_in_advance", True),
    )
    return [
        Regime(
            menu=_all_but_the_last,
            setting=setting,
            splits=(tuple(pairwise(edges)),),
            ahead=True,
        )
    ]


def _all_but_the_last(costs: PipelineCosts) -> Menu:
    """Every layer in full, ahead of the gradient; on the stage of the model's last block nothing.

    Blocks behind the last layer tell that stage; a model without is not told apart by counts, and
    recomputes that layer too.
    """
    blocks = framed(costs).blocks
    last = costs.sequence[-1]
    alone = costs.sequence.count(last) == 1

    def rule(counts: tuple[int, ...]) -> tuple[Part, ...]:
        keeps = alone and counts[last] > 0
        return tuple(
            Part(
                kind,
                keep_all(block) if keeps or not block.checkpointable else in_full(block),
                counts[kind],
            )
            for kind, block in enumerate(blocks)
            if counts[kind]
        )

    return AheadMenu(framed(costs), rule)


def _megatron_flags(planned: Planned) -> list[str]:
    """Megatron's flags of the layout but for the exchange of split sequences."""
    return [flag for flag in layout_flags(planned) if not flag.startswith("--cp-comm-type")]


def _context_flags(planned: Planned, remarks: Remarks) -> list[str]:
    """Its own word for the exchange of split sequences, which is Ulysses where none is given."""
    if planned.layout.context_parallel == 1:
        return []
    words = {"ring": "megatron_cp_algo", "all-to-all": "ulysses_cp_algo"}
    return [f"--context-parallel-algo {context_word(planned, 'MindSpeed', words, remarks)}"]


def _parts(costs: PipelineCosts) -> dict[str, frozenset[str]]:
    """Tensors of the model's norms and of its activation functions, where it has such."""
    found = {"activation_function": set[str](), "norm": set[str]()}
    for kind in layer_kinds(costs):
        block: Block = costs.blocks[kind]
        for op in block.ops:
            if op.name.endswith("_activation"):
                found["activation_function"].add(op.name)
            if op.name in ("attention_norm", "feed_forward_norm"):
                found["norm"].add(op.name)
    return {name: frozenset(tensors) for name, tensors in found.items() if tensors}
