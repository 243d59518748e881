"""ColossalAI: layers and checkpointed first layers per stage.

Read from hpcaitech/ColossalAI at 4f9953be (April 2026) and its release 0.5.0: shardformer/shard/
grad_ckpt_config.py, pipeline/stage_manager.py, pipeline/schedule/interleaved_pp.py and
booster/plugin/hybrid_parallel_plugin.py. ``num_layers_per_stage`` and
``num_ckpt_layers_per_stage`` are lists over stages; the first so many layers of a stage are run
again. Its interleaved schedule takes the second list over all chunks, and refuses the first one:
layers are then divided evenly, those left over one each to the chunks in the middle, and
micro-batches come in multiples of the devices. ZeRO is at most 1 with a pipeline, 2 without; 3
belongs to another plugin. Sequence parallelism has one mode: over tensor-parallel devices or over
devices of its own.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime, Split
from solver.plan import Export
from solver.request import RankOrder
from solver.schedules import SCHEDULES
from solver.targets.layers import admits_layers, layer_kinds
from solver.targets.planned import Planned, context_word, first_whole_layers, layers_of
from solver.targets.regimes import some_first_layers
from solver.targets.target import Refusal, Target
from solver.targets.words import Remarks, python_export

_MODES = {"ring": "ring_attn", "all-to-all": "all_to_all"}


class ColossalAI(Target):
    """HPC-AI's ColossalAI, its HybridParallelPlugin."""

    name = "colossalai"
    title = "ColossalAI"
    version = "0.5.0, 4f9953be"
    virtual_stages = True
    zero_stages = (0, 1, 2)
    rank_orders = tuple(order.value for order in RankOrder)
    context_methods = ("ring", "all-to-all")

    def refusal(self, layout: Layout) -> Refusal | None:
        """Why it does not run this layout, or None."""
        if layout.sequence_parallel and layout.context_parallel > 1:
            return Refusal(
                "sequence_parallel",
                "ColossalAI splits sequences over tensor-parallel devices or over devices of their "
                "own, not both.",
                "false",
            )
        return super().refusal(layout)

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """A number of first layers for every stage."""
        found = some_first_layers(costs, admits_layers(costs, head_alone=False))
        if layout.virtual_stages == 1:
            return found
        split = interleaved_split(costs, layout.pipeline_parallel, layout.virtual_stages)
        return [replace(regime, splits=split) for regime in found]

    def export(self, planned: Planned) -> Export:
        """The plugin with the plan's lists."""
        layout, remarks = planned.layout, Remarks()
        counts = [
            first_whole_layers(planned, number, self.title, remarks)
            for number in range(len(planned.stages))
        ]
        arguments: dict[str, object] = {
            "tp_size": layout.tensor_parallel,
            "pp_size": layout.pipeline_parallel,
            "zero_stage": layout.zero_stage,
            "microbatch_size": layout.micro_batch_size,
            "precision": "bf16" if planned.precision == "fp8" else planned.precision,
        }
        if planned.precision == "fp8":
            arguments["use_fp8"] = True
        if layout.pipeline_parallel > 1:
            arguments |= _pipeline(planned, remarks)
        if layout.sequence_parallel:
            arguments |= {
                "enable_sequence_parallelism": True,
                "sequence_parallelism_mode": "split_gather",
            }
        if layout.context_parallel > 1:
            arguments |= {
                "enable_sequence_parallelism": True,
                "sequence_parallelism_mode": context_word(planned, self.title, _MODES, remarks),
                "sp_size": layout.context_parallel,
            }
        lines = [f"    {name}={value!r}," for name, value in arguments.items()]
        if any(counts):
            remarks.known.append(
                "Call model.gradient_checkpointing_enable() before the booster: without it no "
                "layer is checkpointed."
            )
            lines.append(
                "    gradient_checkpoint_config=PipelineGradientCheckpointConfig("
                f"num_ckpt_layers_per_stage={counts}),"
            )
        plugin = "HybridParallelPlugin"
        if layout.expert_parallel > 1:
            plugin = "MoeHybridParallelPlugin"
            lines.insert(0, f"    ep_size={layout.expert_parallel},")
            if layout.rank_order != RankOrder.PIPELINE_INSIDE:
                remarks.known.append(
                    "The MoE plugin numbers replicas outermost: a stage is not on consecutive "
                    "ranks."
                )
        imported = _CHECKPOINTS if any(counts) else ""
        text = _TEMPLATE.format(
            version=self.version, plugin=plugin, imported=imported, arguments="\n".join(lines)
        )
        return python_export(self, text, remarks)


def interleaved_split(costs: PipelineCosts, devices: int, chunks: int) -> tuple[Split, ...]:
    """The split of its interleaved schedule; none where a chunk would be empty or it refuses."""
    kinds = layer_kinds(costs)
    places = [at for at, kind in enumerate(costs.sequence) if kind in kinds]
    sizes = even_layers(len(places), devices * chunks)
    if min(sizes) == 0 or costs.micro_batches % devices:
        return ()
    inner = [places[first] for first in itertools.accumulate(sizes[:-1])]
    return (tuple(itertools.pairwise([0, *inner, len(costs.sequence)])),)


def even_layers(layers: int, stages: int) -> list[int]:
    """Layers of every chunk in model order, one more on those in the middle."""
    each, more = divmod(layers, stages)
    first = stages // 2 - more // 2
    return [each + (first <= stage < first + more) for stage in range(stages)]


def _pipeline(planned: Planned, remarks: Remarks) -> dict[str, object]:
    """Its split and schedule; neighbouring ranks hold one stage, or where the plan says so one
    pipeline, as it has them by default.
    """
    layout = planned.layout
    layers = [layers_of(stage) for stage in planned.stages]
    if layout.schedule != "1f1b":
        title = SCHEDULES[layout.schedule].title
        remarks.lost.append(f"ColossalAI has no {title} schedule; it would run 1F1B.")
    found: dict[str, object] = {}
    inside = layout.rank_order == RankOrder.PIPELINE_INSIDE
    if layout.data_parallel > 1 and layout.expert_parallel == 1 and not inside:
        found["dp_outside"] = False
    if layout.virtual_stages == 1:
        return found | {"pp_style": "1f1b", "num_layers_per_stage": layers}
    made = even_layers(planned.layers, len(layers))
    if layers != made:
        remarks.lost.append(f"ColossalAI would put {made} layers on the chunks, not {layers}.")
    if planned.micro_batches % layout.pipeline_parallel:
        remarks.lost.append(
            "ColossalAI interleaves only multiples of the pipeline's devices as micro-batches."
        )
    return found | {"pp_style": "interleaved", "num_model_chunks": layout.virtual_stages}


_TEMPLATE = '''"""Plan for ColossalAI (read from {version}): boost your model with this plugin."""

from colossalai.booster.plugin import {plugin}
{imported}
plugin = {plugin}(
{arguments}
)
'''

_CHECKPOINTS = "from colossalai.shardformer import PipelineGradientCheckpointConfig\n"
