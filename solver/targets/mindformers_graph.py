"""MindFormers in graph mode: offsets from the even split, and first layers to run again per chunk.

Read from mindspore-ai/mindformers at 167a50de (July 2026) and its release 2.1.0:
``model_config.offset`` and ``recompute_config.recompute`` are lists [virtual stage][device]. A
chunk holds num_layers // (all chunks) + offset layers; the first and the last chunk may hold none,
the others one at least. Of its layers the first so many are run again. Selection by operator
patterns is not used.
"""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import Export
from solver.targets.layers import admits_layers
from solver.targets.planned import Planned, context_word, first_whole_layers, layers_of
from solver.targets.regimes import some_first_layers
from solver.targets.target import Target
from solver.targets.words import Remarks, yaml_export


class MindFormersGraph(Target):
    """MindSpore's MindFormers, its static graphs."""

    name = "mindformers-graph"
    title = "MindFormers in graph mode"
    version = "2.1.0, 167a50de (graph mode)"
    schedules = ("1f1b", "gpipe")
    virtual_stages = True

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:  # noqa: ARG002
        """A number of first layers for every chunk."""
        return some_first_layers(costs, admits_layers(costs, head_alone=True, embedding_alone=True))

    def export(self, planned: Planned) -> Export:
        """The parallel, model and recompute parts of a configuration."""
        layout, remarks = planned.layout, Remarks()
        devices, chunks = layout.pipeline_parallel, layout.virtual_stages
        even = planned.layers // len(planned.stages)
        offsets = [layers_of(stage) - even for stage in planned.stages]
        counts = [
            first_whole_layers(planned, number, self.title, remarks)
            for number in range(len(planned.stages))
        ]
        model: dict[str, object] = {"num_layers": planned.layers}
        parallel: dict[str, object] = {
            "enable_parallel_optimizer": layout.zero_stage == 1,
        }
        recompute: object = bool(counts[0])
        if devices > 1:
            model |= {"pp_interleave_num": chunks, "offset": _rows(offsets, devices)}
            scheduler = {"pipeline_interleave": chunks > 1, "pipeline_scheduler": layout.schedule}
            parallel["pipeline_config"] = scheduler
        if devices > 1 or counts[0] not in (0, planned.layers):
            recompute = _rows(counts, devices)
        context_word(planned, self.title, {"ring": "colossalai_cp"}, remarks)
        document = {
            "parallel": parallel,
            "parallel_config": {
                "data_parallel": layout.data_parallel,
                "model_parallel": layout.tensor_parallel,
                "context_parallel": layout.context_parallel,
                "expert_parallel": layout.expert_parallel,
                "pipeline_stage": devices,
                "micro_batch_num": planned.micro_batches,
                "use_seq_parallel": layout.sequence_parallel,
            },
            "runner_config": {"batch_size": layout.micro_batch_size},
            "model": {"model_config": model},
            "recompute_config": {"recompute": recompute},
        }
        return yaml_export(self, document, remarks)


def _rows(numbers: list[int], devices: int) -> list[list[int]]:
    """Numbers of the chunks in model order as [virtual stage][device]."""
    return [numbers[start : start + devices] for start in range(0, len(numbers), devices)]
