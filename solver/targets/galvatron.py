"""Galvatron: layers per stage and a checkpoint flag for every layer, in one JSON file.

Read from PKU-DAIR/Hetu-Galvatron at cea12ff (June 2026): the parallel configuration read by
core/runtime/hybrid_parallel_config.py. ``checkpoint`` has a 0 or 1 for every layer, ``pp_division``
the layers of every stage; there are no virtual stages. Its data parallelism is DDP, ZeRO 2 or 3.
Tensor and data parallelism could differ from layer to layer; here they do not.
"""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import Export
from solver.targets.layers import admits_layers
from solver.targets.planned import Planned, layer_choices, layers_of
from solver.targets.regimes import all_or_nothing, any_choice
from solver.targets.target import Target
from solver.targets.words import Remarks, json_export

_PIPELINES = {"1f1b": "pipedream_flush", "gpipe": "gpipe"}
_DATA_PARALLEL = {0: "ddp", 2: "zero2", 3: "zero3"}


class Galvatron(Target):
    """Peking University's Hetu-Galvatron."""

    name = "galvatron"
    title = "Galvatron"
    version = "cea12ff"
    schedules = ("1f1b", "gpipe")
    zero_stages = (0, 2, 3)
    context_parallel = False
    defaults = {"zero_stage": 0}  # noqa: RUF012 - a constant of the class

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:  # noqa: ARG002
        """Every layer for itself: in full or not at all."""
        return [any_choice((), all_or_nothing, admits_layers(costs, head_alone=False))]

    def export(self, planned: Planned) -> Export:
        """The parallel configuration; lists stand as text, one entry for each layer."""
        layout, remarks = planned.layout, Remarks()
        layers = planned.layers
        choices = [entry for stage in planned.stages for entry in layer_choices(stage)]
        partly = [str(n) for n, e in enumerate(choices) if e.recomputed and not e.whole]
        if partly:
            remarks.lost.append(
                f"Layers {', '.join(partly)} recompute parts of themselves; Galvatron whole layers."
            )
        if layout.zero_stage not in _DATA_PARALLEL:
            remarks.lost.append("Galvatron does not shard optimizer state alone; DDP is written.")
        document: dict[str, object] = {
            "pp_deg": layout.pipeline_parallel,
            "tp_sizes_enc": _listed([layout.tensor_parallel] * layers),
            "tp_consecutive_flags": _listed([1] * layers),
            "dp_types_enc": _listed([int(layout.zero_stage == 3)] * layers),
            "use_sp": _listed([0] * layers),
            "checkpoint": _listed([int(entry.whole) for entry in choices]),
            "global_bsz": planned.global_batch_size,
            "chunks": planned.micro_batches,
            "pp_division": _listed([layers_of(stage) for stage in planned.stages]),
            "pipeline_type": _PIPELINES.get(layout.schedule, "pipedream_flush"),
            "default_dp_type": _DATA_PARALLEL.get(layout.zero_stage, "ddp"),
            "vtp": layout.tensor_parallel,
            "vsp": 0,
            "embed_sdp": int(layout.zero_stage == 3),
        }
        return json_export(self, document, remarks)


def _listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
