"""MindSpeed(-LLM): Megatron's plans on Ascend, with recompute of norms and activation functions.

Read from MindSpeed at 028de58c (on Megatron core_v0.12.1) and MindSpeed-LLM at c77308a1 (2026).
``--recompute-norm`` and ``--recompute-activation-function`` stand alone, together, or beside full
recompute by ``block``, whose layers come first; neither goes with ``selective`` or ``uniform``.
They are used for all layers here, not with their own numbers of layers.

``--recompute-in-bubble`` and ``--recompute-in-advance`` move recompute into stalls. Both need
virtual stages, the latter one layer on each and full recompute by ``block``; neither goes with a
layout of layers by stage. Stalls are planned for one stage per device here: it runs no such plan.
"""

from __future__ import annotations

from solver.costs.pipeline import Block, PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import Export
from solver.targets.layers import admits_layers, kinds_in_turn, layer_count, layer_kinds
from solver.targets.megatron import MegatronLM, layout_flags, recompute_flags, split_flags
from solver.targets.planned import Planned, context_word
from solver.targets.regimes import Setting, dropping, first_layers, one_choice, subsets
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
        "recomputes on demand but for --recompute-in-bubble and --recompute-in-advance, which need "
        "several chunks per device (the latter one layer in each) and take no layout of layers by "
        "stage, while stalls are planned for one stage per device"
    )

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """Megatron's, and norms and activation functions alone or beside the first layers."""
        found = super().regimes(costs, layout)
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
        arguments = [*_megatron_flags(planned), *split_flags(planned, remarks)]
        arguments += _context_flags(planned, remarks)
        arguments += recompute_flags(planned, remarks)
        return flags_export(self, arguments, remarks)


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
