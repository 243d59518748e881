"""torchtitan: module lists per stage, one recompute policy for all layers.

Read from pytorch/torchtitan at b5bcd76c (August 2026) and its release 0.3.0 (September 2026), which
count batches in tokens and in sequences: what is written fits both.
``parallelism.module_fqns_per_model_part`` takes any contiguous split; ``activation_checkpoint`` is
``FullAC`` or nothing here. ``SelectiveAC``
saves by operator (every second matrix product), which is no choice of tensors, and
``MemoryBudgetAC`` leaves the choice to the compiler: neither is planned.
"""

from __future__ import annotations

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import BlockRecompute, Export, Stage
from solver.recompute.choice import keep_all
from solver.recompute.policies import full
from solver.targets.layers import ENDS, admits_layers
from solver.targets.planned import Planned, has_embedding, has_head
from solver.targets.regimes import one_choice
from solver.targets.target import Target, flights
from solver.targets.words import Remarks, python_export

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe"}


class Torchtitan(Target):
    """PyTorch's torchtitan."""

    name = "torchtitan"
    title = "torchtitan"
    version = "0.3.0, b5bcd76c"
    schedules = ("1f1b", "gpipe")
    virtual_stages = True
    zero_stages = (0, 1, 2, 3)

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """All layers in full, or none."""
        admits, held = admits_layers(costs, head_alone=True), flights(costs, layout)
        return [
            one_choice(costs, held, (("activation_checkpoint", "FullAC"),), full, admits),
            one_choice(costs, held, (("activation_checkpoint", "None"),), keep_all, admits),
        ]

    def export(self, planned: Planned) -> Export:
        """A function that sets the plan's fields on a Trainer.Config."""
        remarks = Remarks()
        policy = _policy(planned, remarks)
        checkpointed = policy == "FullAC"
        text = _TEMPLATE.format(
            version=self.version,
            imports=_IMPORT if checkpointed else "",
            checkpoint="FullAC.Config()" if checkpointed else "None",
            fields="\n".join(_fields(planned, remarks)),
            batches="\n".join(_batches(planned)),
        )
        return python_export(self, text, remarks)


_TEMPLATE = '''"""Plan for torchtitan ({version}): call apply(config) on your Trainer.Config."""

{imports}
def apply(config):
    """Set what the plan decides; model and data stay as they are."""
    config.activation_checkpoint = {checkpoint}
    parallelism, training = config.parallelism, config.training
{fields}
{batches}
    return config
'''


_IMPORT = "from torchtitan.distributed.activation_checkpoint import FullAC\n\n"


def module_names(planned: Planned) -> list[list[str]]:
    """The modules of each stage, by their names in torchtitan's models."""
    found = []
    for stage, (first, stop) in zip(planned.stages, planned.ranges, strict=True):
        names = ["tok_embeddings"] if has_embedding(stage) else []
        names += [f"layers.{layer}" for layer in range(first, stop)]
        found.append([*names, *(["norm", "lm_head"] if has_head(stage) else [])])
    return found


def _policy(planned: Planned, remarks: Remarks) -> str:
    if planned.setting is not None:
        return str(planned.setting["activation_checkpoint"])
    layers = [entry for stage in planned.stages for entry in _layers(stage)]
    if all(entry.whole and entry.group == 1 for entry in layers):
        return "FullAC"
    if any(entry.recomputed for entry in layers):
        remarks.lost.append("Layers differ in what they recompute; torchtitan has one policy.")
    return "None"


def _layers(stage: Stage) -> list[BlockRecompute]:
    return [entry for entry in stage.recompute if entry.block not in ENDS]


def _fields(planned: Planned, remarks: Remarks) -> list[str]:
    layout = planned.layout
    values: dict[str, object] = {
        "tensor_parallel_degree": layout.tensor_parallel,
        "enable_sequence_parallel": layout.sequence_parallel or layout.tensor_parallel == 1,
        "context_parallel_degree": layout.context_parallel,
        "expert_parallel_degree": layout.expert_parallel,
        "pipeline_parallel_degree": layout.pipeline_parallel,
    }
    if layout.zero_stage == 0:
        values |= {
            "data_parallel_replicate_degree": layout.data_parallel,
            "data_parallel_shard_degree": 1,
        }
    else:
        values |= {
            "data_parallel_replicate_degree": 1,
            "data_parallel_shard_degree": layout.data_parallel,
            "fsdp_reshard_after_forward": "always" if layout.zero_stage == 3 else "never",
        }
    if layout.zero_stage == 1:
        remarks.known.append(
            "FSDP stands for ZeRO 1: it shards gradients as well, so memory is a little less."
        )
    if layout.pipeline_parallel > 1:
        name = "Interleaved1F1B" if layout.virtual_stages > 1 else _SCHEDULES[layout.schedule]
        values |= {
            "pipeline_parallel_schedule": name,
            "module_fqns_per_model_part": module_names(planned),
        }
    return [f"    parallelism.{field} = {value!r}" for field, value in values.items()]


def _batches(planned: Planned) -> list[str]:
    """The batch in tokens where this torchtitan has such fields, else in sequences."""
    layout, length = planned.layout, planned.sequence_length
    pipelined = layout.pipeline_parallel > 1
    local = layout.micro_batch_size * (planned.micro_batches if pipelined else 1)
    sequences: dict[str, object] = {
        "training.local_batch_size": local,
        "training.global_batch_size": planned.global_batch_size,
    }
    tokens: dict[str, object] = {}
    if length is not None:
        sequences["training.seq_len"] = tokens["training.max_context_length"] = length
        step = planned.global_batch_size * length
        tokens |= {
            "training.num_tokens_per_microbatch_per_dp_rank": layout.micro_batch_size * length,
            "training.num_tokens_per_train_step": step,
        }
    if pipelined:
        tokens["parallelism.num_pp_microbatches"] = planned.micro_batches
        sequences["parallelism.pipeline_parallel_microbatch_size"] = layout.micro_batch_size
    return [
        '    if hasattr(training, "num_tokens_per_train_step"):',
        *([f"        {name} = {value}" for name, value in tokens.items()] or ["        pass"]),
        "    else:",
        *(f"        {name} = {value}" for name, value in sequences.items()),
    ]
