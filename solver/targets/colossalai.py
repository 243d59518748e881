"""ColossalAI: layers and checkpointed first layers per stage.

Read from hpcaitech/ColossalAI at 4f9953be (April 2026): shardformer/shard/grad_ckpt_config.py and
pipeline/stage_manager.py. ``num_layers_per_stage`` and ``num_ckpt_layers_per_stage`` are lists over
stages; the first so many layers of a stage are re-run. Where stages differ in layers its stage
manager and its interleaved schedule do not agree on the list's length, so no virtual stages are
planned. ZeRO is at most 1 with a pipeline, 2 without; 3 belongs to another plugin.
"""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import Export
from solver.targets.layers import admits_layers
from solver.targets.planned import Planned, first_whole_layers, layers_of
from solver.targets.regimes import some_first_layers
from solver.targets.target import Target
from solver.targets.words import Remarks, python_export


class ColossalAI(Target):
    """HPC-AI's ColossalAI, its HybridParallelPlugin."""

    name = "colossalai"
    title = "ColossalAI"
    version = "4f9953be"
    zero_stages = (0, 1, 2)

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:  # noqa: ARG002
        """A number of first layers for every stage."""
        return some_first_layers(costs, admits_layers(costs, head_alone=False))

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
            "precision": "fp16" if planned.precision == "fp16" else "bf16",
        }
        if layout.pipeline_parallel > 1:
            arguments["pp_style"] = layout.schedule
            arguments["num_layers_per_stage"] = [layers_of(stage) for stage in planned.stages]
        if layout.sequence_parallel:
            arguments |= {
                "enable_sequence_parallelism": True,
                "sequence_parallelism_mode": "split_gather",
            }
        if layout.context_parallel > 1:
            arguments |= {
                "enable_sequence_parallelism": True,
                "sequence_parallelism_mode": "ring_attn",
                "sp_size": layout.context_parallel,
            }
        lines = [f"    {name}={value!r}," for name, value in arguments.items()]
        if any(counts):
            lines.append(
                "    gradient_checkpoint_config=PipelineGradientCheckpointConfig("
                f"num_ckpt_layers_per_stage={counts}),"
            )
        if layout.expert_parallel > 1:
            remarks.known.append("Experts need the MoE plugin, with ep_size beside these.")
        text = _TEMPLATE.format(version=self.version, arguments="\n".join(lines))
        return python_export(self, text, remarks)


_TEMPLATE = '''"""Plan for ColossalAI (read from {version}): boost your model with this plugin."""

from colossalai.booster.plugin import HybridParallelPlugin
from colossalai.shardformer import PipelineGradientCheckpointConfig

plugin = HybridParallelPlugin(
{arguments}
)
'''
