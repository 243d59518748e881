"""Megatron-Bridge (NeMo): Megatron-Core's plans as fields of its configuration container.

Read from NVIDIA-NeMo/Megatron-Bridge at 067f987d (August 2026): the fields of ``cfg.model`` are
those of Megatron-Core, with the same meaning; batches stand in ``cfg.train``, sharding in
``cfg.ddp``. Its recipes take such a file as overrides.
"""

from __future__ import annotations

from solver.plan import Export
from solver.request import RankOrder
from solver.schedules import SCHEDULES
from solver.targets.megatron import (
    CONTEXT_METHODS,
    MegatronLM,
    folded,
    recompute_setting,
    stage_symbols,
)
from solver.targets.planned import Planned
from solver.targets.words import Remarks, yaml_export


class MegatronBridge(MegatronLM):
    """NVIDIA's Megatron-Bridge."""

    name = "megatron-bridge"
    title = "Megatron-Bridge"
    settings_of = ("megatron-lm",)
    version = "067f987d"

    def export(self, planned: Planned) -> Export:
        """Overrides of a recipe's configuration."""
        layout, remarks = planned.layout, Remarks()
        model: dict[str, object] = {
            "tensor_model_parallel_size": layout.tensor_parallel,
            "pipeline_model_parallel_size": layout.pipeline_parallel,
            "virtual_pipeline_model_parallel_size": (
                layout.virtual_stages if layout.virtual_stages > 1 else None
            ),
            "context_parallel_size": layout.context_parallel,
            "expert_model_parallel_size": layout.expert_parallel,
            "expert_tensor_parallel_size": layout.expert_tensor_parallel,
            "sequence_parallel": layout.sequence_parallel,
        }
        if layout.context_parallel > 1 and layout.context_method in CONTEXT_METHODS:
            model["cp_comm_type"] = CONTEXT_METHODS[layout.context_method]
        if layout.pipeline_parallel > 1:
            symbols = [stage_symbols(stage) for stage in planned.stages]
            model["pipeline_model_parallel_layout"] = folded(symbols)
        if layout.interleaving_group not in (None, layout.pipeline_parallel):
            model["microbatch_group_size_per_vp_stage"] = layout.interleaving_group
        if layout.schedule != "1f1b":
            title = SCHEDULES[layout.schedule].title
            remarks.lost.append(f"Megatron-Core has no {title} schedule; it would run 1F1B.")
        setting = recompute_setting(planned, remarks)
        model.update(_RECOMPUTES_NOTHING | setting)
        document: dict[str, object] = {"model": model}
        if planned.overlaps_exchange:
            document["comm_overlap"] = {"overlap_moe_expert_parallel_comm": True}
        if layout.rank_order == RankOrder.PIPELINE_INSIDE:
            document["dist"] = {"use_tp_pp_dp_mapping": True}
        train = {
            "global_batch_size": planned.global_batch_size,
            "micro_batch_size": layout.micro_batch_size,
        }
        document["train"] = train
        if planned.sequence_length is not None:
            document["dataset"] = {"sequence_length": planned.sequence_length}
        document["ddp"] = _sharding(layout.zero_stage)
        return yaml_export(self, document, remarks)


_RECOMPUTES_NOTHING: dict[str, object] = {
    "recompute_granularity": None,
    "recompute_method": None,
    "recompute_num_layers": None,
}
"""What a recipe may have set otherwise."""


def _sharding(zero_stage: int) -> dict[str, object]:
    if zero_stage < 2:
        return {"use_distributed_optimizer": zero_stage == 1}
    strategy = {2: "optim_grads", 3: "optim_grads_params"}[zero_stage]
    return {
        "use_distributed_optimizer": True,
        "use_megatron_fsdp": True,
        "data_parallel_sharding_strategy": strategy,
    }
